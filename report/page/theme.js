// Light, dark, or as the system says; printing is always light.
const theme = {
  choice: "auto",
  button: byId("theme"),

  apply(choice) {
    if (choice === "auto")
      delete document.documentElement.dataset.theme;
    else
      document.documentElement.dataset.theme = choice;
    redrawAll();
  },

  next() {
    this.choice = {auto: "light", light: "dark", dark: "auto"}[this.choice];
    this.button.textContent = "Colours: " + this.choice;
    this.button.setAttribute("aria-label", "Colours: " + (this.choice === "auto" ? "as the system says" : this.choice));
    this.apply(this.choice);
  },
};
theme.button.addEventListener("click", () => theme.next());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  for (const redraw of redraws) redraw();
});
addEventListener("afterprint", () => theme.apply(theme.choice));
let knownWidth = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth === knownWidth) return;
  knownWidth = document.body.clientWidth;
  redrawAll();
}).observe(document.body);
