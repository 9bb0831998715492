// Draws the page; the figures draw themselves again when theme, width or choice changes.
drawFigures();
drawComparisonTools();
drawTables();
redraws.push(drawScatter, drawHistogram);
for (const redraw of redraws) redraw();
document.documentElement.dataset.drawn = "yes";
