// The script of the page that `heddle report` writes. The pictures are in the
// page already. This script fills in the tables, and lets the reader choose and
// zoom pictures. It loads nothing.
"use strict";
(() => {
  const {
    data,
    $$,
    make,
    formats,
    formatBytes,
    formatFlops,
    formatSeconds,
    showTable,
    explained,
    programOf,
    tables
  } = tablesOfReport;

  // --- memory: choosers, tables of the chosen picture ---

  const commandText = (program, index) => {
    const command = program.commands[index];
    if (!command)
      return "the end";
    return index + ": " + command[0] +
           (command[1] ? " (" + command[1] + ")" : "");
  };

  const setUpMemory = (article, plan) => {
    const figures = $$("figure[data-kind]", article);
    const place = article.querySelector("[data-choosers]");
    const chosen = {class : "0"};
    const selects = {};
    const programs = () =>
        plan.ranks[chosen.class].programs.map(one => one.name);
    // Classes of ranks share the pictures of a program whose memory is alike.
    const likeChosen = () => {
      const {index} = programOf(plan, chosen.class, chosen.program);
      return figures.filter(figure =>
                                figure.dataset.class === String(index) &&
                                figure.dataset.program === chosen.program);
    };
    const offer = (part, values) => {
      if (!values.includes(chosen[part]))
        chosen[part] = values[0];
      selects[part].replaceChildren(
          ...values.map(value => make("option", {value}, value)));
      selects[part].value = chosen[part];
    };
    const update = () => {
      offer("program", programs());
      const like = likeChosen();
      offer("kind", like.map(figure => figure.dataset.kind));
      const shown = like.find(figure => figure.dataset.kind === chosen.kind);
      for (const figure of figures)
        figure.hidden = figure !== shown;
      if (shown)
        fillMemory(article, plan, chosen, shown);
    };
    for (const [part, title] of [[ "class", "ranks" ], [ "program", "program" ],
                                 [ "kind", "memory" ]]) {
      const select = selects[part] = make("select", {"data-choose" : part});
      select.onchange = () => {
        chosen[part] = select.value;
        update();
      };
      place.append(make("label", {}, title + " ", select));
    }
    plan.ranks.forEach((ranks, i) => selects.class.append(
                           make("option", {value : i},
                                ranks.ranks + " (" + ranks.count + ", stage " +
                                    ranks.stages.join(", ") + ")")));
    // The program that needs most comes first.
    const needOf = name => {
      const [memory] = programOf(plan, 0, name).program.memory;
      return Object.entries(memory.peak.owners)
          .reduce((sum, [ owner, bytes ]) =>
                      sum + (owner === "not used at the peak" ? 0 : bytes),
                  0);
    };
    chosen.program =
        plan.ranks[0]
            .programs.filter(one => !programOf(plan, 0, one.name).program.frame)
            .map(one => one.name)
            .reduce((most, name) =>
                        most && needOf(most) >= needOf(name) ? most : name,
                    undefined);
    update();
  };

  const bytesOf = state => state.bytes * (state.count ?? 1);
  const fillMemory = (article, plan, chosen, figure) => {
    const {program} = programOf(plan, chosen.class, chosen.program);
    const memory = program.memory.find(one => one.kind === chosen.kind);
    const at = memory.peak.command;
    const place = name => article.querySelector(`[data-table="${name}"]`);
    const columns = [
      [ "buffer", "text" ], [ "module", "text" ], [ "owner", "text" ],
      [ "bytes", "bytes" ], [ "with padding", "bytes" ], [ "offset", "number" ],
      [ "from command", "text" ], [ "until command", "text" ]
    ];
    const rowOf =
        buffer => [buffer[0], buffer[1], buffer[2], buffer[3], buffer[4],
                   buffer[5], commandText(program, buffer[6]),
                   commandText(program, buffer[7])];
    const numbered = memory.buffers.map((buffer, i) => [buffer, i])
                         .sort((a, b) => b[0][4] - a[0][4]);
    const live = numbered.filter(([ b ]) => b[6] <= at && at <= b[7]);
    const mark = number => {
      $$(".marked", article).forEach(one => one.classList.remove("marked"));
      $$(`[data-buffer="${number}"]`, figure)
          .forEach(one => one.classList.add("marked"));
      $$(`tr[data-buffer="${number}"]`, article)
          .forEach(one => one.classList.add("marked"));
    };
    // States are there all the time; a frame has none.
    const states = program.frame
                       ? []
                       : plan.ranks[chosen.class]
                             .states.map(i => plan.states[i])
                             .filter(state => state.memory === chosen.kind)
                             .sort((a, b) => bytesOf(b) - bytesOf(a));
    for (const [name, title, list, isOpen, more] of [
             [
               "live",
               "Buffers in use at the peak, largest first; peak at command " +
                   commandText(program, at) + "; after them states",
               live, true,
               states.map(state => [state.name +
                                        (state.count > 1
                                             ? " (" + state.count + " of them)"
                                             : ""),
                                    "", state.owner, bytesOf(state), null, null,
                                    "the begin", "the end"])
             ],
             [
               "buffers", "All buffers of the program", numbered, false, []
             ]]) {
      const lines =
          showTable(place(name), title, columns,
                    [...list.map(([ buffer ]) => rowOf(buffer)), ...more ],
                    isOpen)
              .slice(0, list.length);
      lines.forEach((line, i) => {
        line.dataset.buffer = list[i][1];
        line.onclick = () => mark(list[i][1]);
        line.tabIndex = 0;
        line.onkeydown = event => {
          if (event.key === "Enter")
            mark(list[i][1]);
        };
      });
    }
    const budget = program.frame ? 0 : plan.budgets[memory.kind];
    const owners =
        Object.entries(memory.peak.owners).sort((a, b) => b[1] - a[1]);
    const total = owners.reduce((sum, [, bytes ]) => sum + bytes, 0);
    const rows = owners.map(
        ([ name, bytes ]) => [name, bytes, total ? bytes / total : 0]);
    const padding =
        live.reduce((sum, [ buffer ]) => sum + buffer[4] - buffer[3], 0);
    rows.push([
      program.frame ? "all of the frame" : "all that the plan reserves", total,
      1
    ]);
    rows.push([
      "of this, padding of buffers for alignment", padding,
      total ? padding / total : 0
    ]);
    if (budget)
      rows.push([ "budget, and how much of it", budget, total / budget ]);
    showTable(
        place("owners"), "Owners of " + memory.kind + " memory at the peak",
        [ [ "owner", "text" ], [ "bytes", "bytes" ], [ "share", "percent" ] ],
        rows, true);
    figure.buffers = {program, memory, mark};
  };

  // --- pictures: what is under the pointer, and zoom ---

  const tip = make("div", {id : "tip", role : "status", hidden : ""});
  document.body.append(tip);
  const showTip = (event, text) => {
    tip.hidden = !text;
    if (!text)
      return;
    tip.textContent = text;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = x + "px";
    tip.style.top =
        Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  };
  const valueAt = (plot, units) => {
    const value = units / 1000 * +plot.dataset.x, unit = plot.dataset.xUnit;
    return unit === "seconds" ? formatSeconds(value)
           : unit === "FLOP"  ? formatFlops(value)
                              : String(+value.toFixed(2));
  };
  const tipOf = (target, plot, units) => {
    const figure = target.closest("figure");
    if (target.dataset.buffer && figure?.buffers) {
      const {program, memory} = figure.buffers;
      const b = memory.buffers[target.dataset.buffer];
      return b[0] + (b[1] ? "\n" + b[1] : "") + "\n" + b[2] + ", " +
             formatBytes(b[3]) + " (" + b[3] + " bytes) at " + b[5] +
             "\nfrom " + commandText(program, b[6]) + "\nuntil " +
             commandText(program, b[7]);
    }
    if (plot.dataset.plot === "memory" && figure?.buffers) {
      const {program, memory} = figure.buffers;
      const at = Math.floor(units / 1000 * program.commands.length);
      const step = memory.steps.filter(one => one[0] <= at).pop();
      if (!step)
        return "";
      return "command " + commandText(program, at) + "\n" +
             memory.owners.map((owner, i) => [owner, step[i + 1]])
                 .filter(one => one[1] > 0)
                 .reverse()
                 .map(([ owner, bytes ]) => owner + " " + formatBytes(bytes))
                 .join("\n");
    }
    if (target.dataset.pass) {
      const x = +target.getAttribute("x"),
            width = +target.getAttribute("width");
      return "stage " + target.parentNode.dataset.stage + ": " +
             target.dataset.pass + "\n" + valueAt(plot, x) + " to " +
             valueAt(plot, x + width) + "\ntakes " + valueAt(plot, width);
    }
    if (target.dataset.kernel !== undefined) {
      const plan = data.plans[target.closest("article").dataset.plan];
      const kernel = plan.explain.kernels[target.dataset.kernel];
      return kernel.ops + "\n" + formatFlops(kernel.flops) + ", " +
             formatBytes(kernel.bytes) + ", " + kernel.calls + " launches";
    }
    if (target.parentNode.dataset?.stream)
      return target.parentNode.dataset.stream + "\n" +
             valueAt(plot, +target.getAttribute("x")) + ", for " +
             valueAt(plot, +target.getAttribute("width"));
    return target.dataset.owner ?? target.dataset.part ?? "";
  };

  const setUpPlot = plot => {
    const chart = plot.ownerSVGElement;
    // Plots of a picture that have the same horizontal axis zoom together.
    const likes = () =>
        $$(".plot", chart).filter(other => other.dataset.x === plot.dataset.x);
    const view = () => plot.getAttribute("viewBox").split(" ").map(Number);
    const unitsOf = event => {
      // The box of an inner `svg` is that of its content, which zooming moves
      // beyond the plot, so that the box of the outer one is taken.
      const box = chart.getBoundingClientRect(), [ x, , width ] = view();
      const scale = box.width / chart.viewBox.baseVal.width;
      const at = (event.clientX - box.left) / scale - plot.x.baseVal.value;
      return x + at / plot.width.baseVal.value * width;
    };
    const show = (x, width) => {
      width = Math.min(1000, Math.max(1, width));
      x = Math.min(1000 - width, Math.max(0, x));
      for (const other of likes()) {
        const [, y, , height] =
            other.getAttribute("viewBox").split(" ").map(Number);
        other.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
      }
      $$(".axis text[text-anchor=middle], .bracket, .note[text-anchor=middle], .peak-text",
         chart)
          .forEach(
              one => { one.style.visibility = width < 1000 ? "hidden" : ""; });
      chart.setAttribute("data-zoom", (1000 / width).toFixed(1));
      const figure = chart.closest("figure");
      const note =
          figure.querySelector(".zoomed") ?? make("p", {class : "zoomed"});
      note.textContent = width < 1000
                             ? "Shown: " + valueAt(plot, x) + " to " +
                                   valueAt(plot, x + width) +
                                   (plot.dataset.xUnit ? "" : " across") +
                                   ". 0 or a double-click shows all."
                             : "";
      figure.append(note);
    };
    let from = null;
    plot.addEventListener("pointerdown", event => { from = unitsOf(event); });
    plot.addEventListener("pointerup", event => {
      const to = unitsOf(event);
      if (from !== null && Math.abs(to - from) > view()[2] / 50)
        show(Math.min(from, to), Math.abs(to - from));
      else if (event.target.dataset.buffer)
        event.target.closest("figure").buffers?.mark(
            event.target.dataset.buffer);
      from = null;
    });
    plot.addEventListener("dblclick", () => show(0, 1000));
    plot.addEventListener(
        "pointermove",
        event => showTip(event, tipOf(event.target, plot, unitsOf(event))));
    plot.addEventListener("pointerleave", event => showTip(event, ""));
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label",
                      plot.dataset.plot + ": arrow keys move, + and - zoom");
    plot.addEventListener("keydown", event => {
      // These are keys of the browser, such as Ctrl and + for larger text.
      if (event.ctrlKey || event.metaKey || event.altKey)
        return;
      const [x, , width] = view();
      const step = {ArrowLeft : -0.1, ArrowRight : 0.1}[event.key];
      if (step)
        show(x + step * width, width);
      else if (event.key === "+" || event.key === "=")
        show(x + width / 4, width / 2);
      else if (event.key === "-")
        show(x - width / 2, width * 2);
      else if (event.key === "0" || event.key === "Escape")
        show(0, 1000);
      else
        return;
      event.preventDefault();
    });
  };

  // --- the page ---

  const cardsOf = plan => {
    const all = explained(plan, 0);
    const sent =
        all.communication.reduce((sum, line) => sum + line.bytes_sent, 0);
    // The step of a plan that does not train is a run of its first program.
    const first =
        all.programs.find(one => one.kind === "train") ?? all.programs[0];
    const step = first?.kind === "train" ? "step" : "run of " + first?.name;
    const moved = all.moves.reduce((sum, line) => sum + line.bytes, 0);
    const cards = [ [
      formatBytes(all.memory.peak),
      "memory of a rank (ranks " + plan.ranks[0].ranks + ")"
    ] ];
    for (const [kind, of] of Object.entries(all.memory.kinds))
      if (of.arena + of.persistent && Object.keys(all.memory.kinds).length > 1)
        cards.push([
          formatBytes(of.arena + of.persistent), "of " + kind + " memory"
        ]);
    for (const [kind, budget] of Object.entries(plan.budgets))
      cards.push([ formatBytes(budget), "budget of " + kind + " memory" ]);
    if (all.step)
      cards.push([ formatSeconds(all.step.seconds), "a step, planned" ]);
    if (plan.measured?.step)
      cards.push(
          [ formatSeconds(plan.measured.step.seconds), "a step, measured" ]);
    if (first?.kind === "train")
      cards.push([
        formatFlops(all.flops_per_step), "of the model in a step, all ranks"
      ]);
    if (plan.explain.schedule_lines.length > 1)
      cards.push([
        formats.percent(all.bubble),
        "bubble, mean of the stages (" + all.schedule + ", by " +
            (all.times_from === "flops" ? "operations" : "time") + ")"
      ]);
    if (all.ranks > 1)
      cards.push([ formatBytes(sent), "sent by a rank in a " + step ]);
    if (moved)
      cards.push([ formatBytes(moved), "copied between kinds of memory" ]);
    if (all.bound?.by)
      cards.push([ all.bound.by, "bounds a " + step ]);
    return cards;
  };

  data.plans.forEach((plan, number) => {
    const article = document.getElementById("plan-" + number);
    const cards = article.querySelector("[data-cards]");
    for (const [value, text] of cardsOf(plan))
      cards.append(make("div", {class : "card"}, make("b", {}, value),
                        make("span", {}, text)));
    setUpMemory(article, plan);
  });
  for (const place of $$("[data-table]")) {
    const build = tables[place.dataset.table];
    if (build)
      showTable(place, ...build(data.plans[place.dataset.plan]));
  }
  $$(".plot").forEach(setUpPlot);
  document.getElementById("theme").onclick = () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme
                       ? root.dataset.theme === "dark"
                       : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
  };
  addEventListener("beforeprint",
                   () => $$("details").forEach(one => { one.open = true; }));
  document.documentElement.dataset.ready = "true";
})();
