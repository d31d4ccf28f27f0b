"use strict";
// Tables can be sorted by their headings and, where they are long, searched. The page says the same without this.
const LONG = 8;
const number = (text) => {
  const found = /^[≥<]?\s*([-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)/.exec(text);
  return found ? Number(found[1].replaceAll(",", "").replace("−", "-")) : null;
};
const sort = (table, place, heading) => {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => {
    const text = row.cells[place].textContent.trim();
    return { row, text, value: number(text) };
  });
  const figures = rows.some((one) => one.value !== null);
  const before = heading.getAttribute("aria-sort");
  const falling = before ? before === "ascending" : figures;
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
  const turn = falling ? -1 : 1;
  rows.sort((one, other) => {
    if (!figures) return turn * one.text.localeCompare(other.text);
    if (one.value === null || other.value === null) return (one.value === null) - (other.value === null);
    return turn * (one.value - other.value);
  });
  body.append(...rows.map((one) => one.row));
};
const search = (table) => {
  const label = document.createElement("label");
  const field = document.createElement("input");
  const said = document.createElement("span");
  label.className = "search";
  field.type = "search";
  field.placeholder = "Search this table";
  field.setAttribute("aria-label", `Search: ${table.parentNode.getAttribute("aria-label")}`);
  said.setAttribute("role", "status");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    said.textContent = field.value ? `${shown} of ${table.tBodies[0].rows.length} rows` : "";
  });
  label.append(field, said);
  table.parentNode.before(label);
};
for (const table of document.querySelectorAll(".scroll > table")) {
  const rows = table.tBodies[0].rows;
  if (rows.length < 2 || table.querySelector("[colspan], [rowspan]")) continue;
  Array.from(table.tHead.rows[0].cells).forEach((heading, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, place, heading));
    heading.append(button);
  });
  if (rows.length >= LONG) search(table);
}
