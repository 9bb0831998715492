// A table of lines, each column with its title and what it says of a line.
function tableOf(columns, lines) {
  const cell = (tag, column, attributes, content) =>
      element(tag, {class: column.number ? "number" : column.name ? "name" : null, ...attributes}, content);
  return element(
      "div", {class: "scroll", tabindex: "0"},
      element(
          "table", {},
          element("thead", {}, element("tr", {}, columns.map((column) => cell("th", column, {scope: "col"}, column.title)))),
          element("tbody", {}, lines.map((line) => element("tr", {}, columns.map((column) => cell("td", column, {}, column.of(line))))))));
}

const number = (title, of) => ({title, of, number: true});
const nameColumn = (title, of) => ({title, of, name: true});
