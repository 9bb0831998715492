# Makes a source file of a page's files: `cmake -DNAME=kReportPage -DPAGE=... -DSTYLES="a.css b.css"
# -DSCRIPTS="a.js b.js" -DOUT=... -P`.
# The styles and the scripts go into the page at [[style]] and [[scripts]]; the program fills in [[title]]
# and [[data]] for each run.
cmake_minimum_required(VERSION 3.22)

file(READ "${PAGE}" page)
set(style "")
separate_arguments(STYLES)
foreach(file IN LISTS STYLES)
  file(READ "${file}" text)
  string(APPEND style "${text}\n")
endforeach()
set(scripts "")
separate_arguments(SCRIPTS)
foreach(script IN LISTS SCRIPTS)
  file(READ "${script}" text)
  string(APPEND scripts "${text}\n")
endforeach()
string(REPLACE "[[style]]" "${style}" page "${page}")
string(REPLACE "[[scripts]]" "${scripts}" page "${page}")

set(parts "")
while(TRUE)
  string(FIND "${page}" "[[title]]" title)
  string(FIND "${page}" "[[data]]" data)
  if(title EQUAL -1 AND data EQUAL -1)
    break()
  endif()
  if(data EQUAL -1 OR (NOT title EQUAL -1 AND title LESS data))
    set(at ${title})
    set(what kTitle)
    set(length 9)
  else()
    set(at ${data})
    set(what kData)
    set(length 8)
  endif()
  string(SUBSTRING "${page}" 0 ${at} before)
  math(EXPR rest "${at} + ${length}")
  string(SUBSTRING "${page}" ${rest} -1 page)
  string(APPEND parts "    {PagePart::What::kText, R\"page(${before})page\"},\n    {PagePart::What::${what}, \"\"},\n")
endwhile()
file(WRITE "${OUT}" "// Made from ${PAGE} by embed_page.cmake.
#include \"engine/report/report_page.h\"

namespace trainyard {

namespace {
constexpr PagePart kParts[] = {
${parts}    {PagePart::What::kText, R\"page(${page})page\"}};
}  // namespace

const std::span<const PagePart> ${NAME} = kParts;

}  // namespace trainyard
")
