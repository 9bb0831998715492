# Makes a source file of a page's files: `cmake -DNAME=kReportPage -DPAGE=... -DSTYLES="a.css b.css"
# -DSCRIPTS="a.js b.js" -DOUT=... -P`.
# A page says what kind it is, where its skip link leads, beside which files it lies, what its header has below the
# title, and its sections; frame.html, beside this file, is what all pages have around them. The styles and the
# scripts go in at [[style]] and [[scripts]]; the program fills in [[title]] and [[data]] for each run.
cmake_minimum_required(VERSION 3.22)

file(READ "${PAGE}" own)

# What stands in `own` behind `from` and before `to`, or to the end where `to` is empty.
function(cut out from to)
  string(FIND "${own}" "${from}" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${PAGE}: has no ${from}")
  endif()
  string(LENGTH "${from}" length)
  math(EXPR begin "${begin} + ${length}")
  set(size -1)
  if(NOT to STREQUAL "")
    string(FIND "${own}" "${to}" end)
    math(EXPR size "${end} - ${begin}")
  endif()
  string(SUBSTRING "${own}" ${begin} ${size} found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

cut(kind "[[kind]] " "\n[[skip]] ")
cut(skip "[[skip]] " "\n[[beside]] ")
cut(beside "[[beside]] " "\n[[header]]\n")
cut(header "[[header]]\n" "[[main]]\n")
cut(main "[[main]]\n" "")
string(FIND "${skip}" " " space)
string(SUBSTRING "${skip}" 0 ${space} skip_to)
math(EXPR space "${space} + 1")
string(SUBSTRING "${skip}" ${space} -1 skip_text)

get_filename_component(folder "${CMAKE_CURRENT_LIST_FILE}" DIRECTORY)
file(READ "${folder}/frame.html" page)
string(REPLACE "[[kind]]" "${kind}" page "${page}")
string(REPLACE "[[skip]]" "${skip_to}" page "${page}")
string(REPLACE "[[skip-text]]" "${skip_text}" page "${page}")
string(REPLACE "[[beside]]" "${beside}" page "${page}")
string(REPLACE "[[header]]" "${header}" page "${page}")
string(REPLACE "[[main]]" "${main}" page "${page}")

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
#include \"report/report_page.h\"

namespace trainyard {

namespace {
constexpr PagePart ${NAME}Parts[] = {
${parts}    {PagePart::What::kText, R\"page(${page})page\"}};
}  // namespace

const std::span<const PagePart> ${NAME} = ${NAME}Parts;

}  // namespace trainyard
")
