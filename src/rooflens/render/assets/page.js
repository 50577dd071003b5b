"use strict";
(() => {
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("chart-data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  let view = null;

  const unpack = async () => {
    const packed = Uint8Array.from(atob(element("vega").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };

  const draw = async () => {
    const form = narrow.matches ? "narrow" : "wide";
    const config = data[form].config[isDark() ? "dark" : "light"];
    const options = { mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
    const spec = { ...data[form].spec, datasets: data.datasets, config };
    view?.finalize();
    view = (await vegaEmbed(element("chart"), spec, options)).view;
  };

  const save = (type) => async () => {
    const link = document.createElement("a");
    link.href = await view.toImageURL(type, 2);
    link.download = `roofline.${type}`;
    link.click();
  };

  const sortBy = (header) => {
    const [body, column] = [header.closest("table").tBodies[0], header.cellIndex];
    const down = header.getAttribute("aria-sort") !== "descending";
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const order = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * order(key(a), key(b)));
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows);
  };

  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sortBy(button.parentNode));
  }
  element("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    draw();
  });
  element("save-svg").addEventListener("click", save("svg"));
  element("save-png").addEventListener("click", save("png"));
  element("reset").addEventListener("click", draw);
  unpack().then(() => {
    dark.addEventListener("change", draw);
    narrow.addEventListener("change", draw);
    return draw();
  }).catch((error) => {
    element("chart").textContent = `The chart could not be drawn (${error.message}); the tables hold every figure.`;
  });
})();
