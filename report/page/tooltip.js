// One tooltip for the page, for the pointer and for the keyboard.
const tooltip = {
  box: byId("tooltip"),

  // `lines`: the first is the heading. x and y are places on the page; the box stays inside the window.
  show(x, y, lines) {
    this.box.replaceChildren(
        element("strong", {}, lines[0]), ...lines.slice(1).map((line) => element("div", {}, line)));
    this.box.hidden = false;
    const {width, height} = this.box.getBoundingClientRect();
    const left = Math.min(Math.max(8, x + 14), document.documentElement.clientWidth - width - 8);
    const below = y + 18;
    const fitsBelow = below + height < window.scrollY + window.innerHeight;
    this.box.style.left = Math.max(8, left) + window.scrollX + "px";
    this.box.style.top = (fitsBelow ? below : Math.max(window.scrollY + 4, y - height - 12)) + "px";
  },

  showAt(target, lines) {
    const box = target.getBoundingClientRect();
    this.show(box.left + box.width / 2 - 14, box.bottom + window.scrollY - 10, lines);
  },

  hide() { this.box.hidden = true; },
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tooltip.hide();
});
