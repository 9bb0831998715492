// Draws the page; what depends on its width draws itself again when that changes.
drawHeader();
drawLosses();
drawBreakdown();
drawCriticalPath();
drawTimeline();
drawIdle();
drawMemory();
drawLinks();
drawTransfers();
drawPartition();
drawLayer();
drawSources();
for (const redraw of redraws) redraw();
document.documentElement.dataset.drawn = "yes";
