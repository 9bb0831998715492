// Draws the page; what depends on the choice or the width draws itself again when that changes.
drawOverview();
drawChoice();
drawFront();
drawByKey();
drawHeat();
drawTable();
chooseAgain();
document.documentElement.dataset.drawn = "yes";
