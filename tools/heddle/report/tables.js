// The data that a page of `heddle report` embeds, as tables. report.js, which
// follows in the page, uses what this script defines as `tablesOfReport`.
"use strict";
const tablesOfReport = (() => {
  const data = JSON.parse(document.getElementById("heddle-plan").textContent);
  const $$ =
      (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes))
      element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // --- numbers as text, as `heddle explain` prints them ---

  const formatBytes = bytes => {
    const units = [ "B", "KiB", "MiB", "GiB", "TiB" ];
    let unit = 0;
    for (; Math.abs(bytes) >= 1024 && unit + 1 < units.length; ++unit)
      bytes /= 1024;
    return (unit ? bytes.toFixed(2) : Math.round(bytes)) + " " + units[unit];
  };
  const formatFlops = flops => {
    const units = [ "", "K", "M", "G", "T", "P", "E" ];
    let unit = 0;
    for (; flops >= 1000 && unit + 1 < units.length; ++unit)
      flops /= 1000;
    return flops.toFixed(2) + " " + units[unit] + "FLOP";
  };
  const formatSeconds = seconds => seconds >= 1 ? seconds.toFixed(2) + " s"
                                   : seconds >= 1e-3
                                       ? (seconds * 1e3).toFixed(2) + " ms"
                                       : (seconds * 1e6).toFixed(2) + " us";
  const formats = {
    text : String,
    bytes : formatBytes,
    flops : formatFlops,
    seconds : formatSeconds,
    macs : count => formatFlops(count).replace("FLOP", "MAC"),
    percent : share => (100 * share).toFixed(1) + " %",
    number : value =>
        Number.isInteger(value) ? value.toLocaleString("en-US") : String(value),
  };
  const exact = value =>
      typeof value === "number" ? String(value) : value ?? "";

  // --- tables ---

  // Puts a table into `place`. `columns` are [title, format]; a cell may be
  // null.
  const showTable = (place, title, columns, rows, isOpen = false) => {
    place.replaceChildren();
    if (!rows.length)
      return [];
    const body = make("tbody");
    const head = make("tr");
    for (const [name, format] of columns)
      head.append(make(
          "th", {scope : "col", class : format === "text" ? "" : "n"}, name));
    const lines = rows.map(cells => {
      const line = make("tr");
      cells.forEach((cell, i) => {
        const format = columns[i][1];
        const text = cell === null || cell === undefined ? ""
                     : typeof cell === "string"          ? cell
                                                : formats[format](cell);
        const one = make("td", {class : format === "text" ? "" : "n"}, text);
        if (format === "bytes" && typeof cell === "number")
          one.title = cell.toLocaleString("en-US") + " bytes";
        line.append(one);
      });
      body.append(line);
      return line;
    });
    const copy = make("button", {type : "button"}, "Copy as a table");
    copy.onclick = () => {
      const text = [ columns.map(column => column[0]), ...rows ]
                       .map(cells => cells.map(exact).join("\t"))
                       .join("\n");
      const done = () => { copy.textContent = "Copied"; };
      const area = make("textarea", {readonly : ""});
      area.value = text;
      copy.after(area);
      area.select();
      if (document.execCommand("copy"))
        done();
      area.remove();
      copy.focus();
    };
    const details =
        make("details", isOpen ? {open : ""} : {},
             make("summary", {}, title + " ",
                  make("span", {class : "many"}, "(" + rows.length + ")")),
             make("div", {class : "tools"}, copy),
             make("div", {class : "scroll", tabindex : "0"},
                  make("table", {}, make("thead", {}, head), body)));
    place.append(details);
    return lines;
  };

  // What `explain --json --rank N` prints for the ranks of a class.
  const explained = (plan, index) => {
    const own = {...plan.ranks[index].explain};
    for (const [key, value] of Object.entries(own))
      if (value?.same_as !== undefined)
        own[key] = plan.ranks[value.same_as].explain[key];
    return {...plan.explain, ...own};
  };
  // The memory of a program of a class of ranks. Classes share what is alike.
  const programOf = (plan, index, name) => {
    const program = plan.ranks[index].programs.find(one => one.name === name);
    return program?.same_as === undefined
               ? {program, index : Number(index)}
               : programOf(plan, program.same_as, name);
  };
  // The states of a plan, each with the ranks that have it.
  const statesOf = plan => plan.states.map((state, i) => {
    const having = plan.ranks.filter(ranks => ranks.states.includes(i));
    return {
      ...state,
      ranks : having.length === plan.ranks.length
                  ? "all"
                  : having.map(one => one.ranks).join(", ")
    };
  });
  const axesOf = axes => axes.length ? axes.join(",") : "-";
  const splitOf = state =>
      state.split ? state.split.map(axes => axesOf(axes)).join(" x ") : "whole";
  const countOf = entry => entry.count > 1 ? entry.count : 1;
  const linkOf = (plan, axes) => {
    const links = plan.explain.cluster?.links;
    if (!links)
      return "";
    const used = axes.split(",").map(axis => links[axis.split("/")[0]]);
    return used.includes("inter_node") ? "crosses nodes" : "inside a node";
  };

  const tables = {
    settings :
        plan => ["Settings that differ from their defaults",
                 [ [ "setting", "text" ], [ "value", "text" ] ],
                 Object.entries(plan.settings)
                     .map(([ key,
                             value ]) => [key, typeof value === "string"
                                                   ? value
                                                   : JSON.stringify(value)])],
    classes : plan => ["Classes of like ranks, those that need most first",
                       [
                         [ "ranks", "text" ], [ "count", "number" ],
                         [ "stages", "text" ], [ "memory", "bytes" ],
                         [ "arena", "bytes" ], [ "persistent", "bytes" ],
                         [ "sent in a step", "bytes" ]
                       ],
                       plan.ranks.map((ranks, i) => {
                         const all = explained(plan, i);
                         return [
                           ranks.ranks, ranks.count, ranks.stages.join(", "),
                           all.memory.peak, all.memory.arena,
                           all.memory.persistent,
                           all.communication.reduce(
                               (sum, line) => sum + line.bytes_sent, 0)
                         ];
                       })],
    changes : plan => ["What would bring the peak down, as flags",
                       [
                         [ "flags", "text" ], [ "memory of a rank", "bytes" ],
                         [ "less by", "bytes" ]
                       ],
                       plan.changes.map(
                           change => [change.flags, change.peak, change.less]),
                       true],
    times : plan => {
      const all = plan.explain, measured = plan.measured;
      const stages =
          Math.max(all.fragment_times.length, all.exposed?.length ?? 0,
                   measured?.exposed?.length ?? 0);
      const unit = all.times_from === "flops" ? "flops" : "seconds";
      const kinds = [
        ...new Set([
          ...all.fragment_times, ...(measured?.fragment_times ?? [])
        ].flatMap(Object.keys))
      ].sort();
      const columns = [
        [ "stage", "number" ], [ "times", "text" ],
        ...kinds.map(kind => [kind, unit]), [ "idle", "percent" ],
        [ "waits: collectives", "seconds" ], [ "waits: transfers", "seconds" ],
        [ "waits: copies", "seconds" ]
      ];
      const rows = [];
      const add = (from, name) => {
        for (let i = 0; i < stages; ++i)
          rows.push([
            i, name, ...kinds.map(kind => from.fragment_times[i]?.[kind]),
            from.idle[i], from.exposed?.[i]?.collectives,
            from.exposed?.[i]?.transfers, from.exposed?.[i]?.copies
          ]);
      };
      add(all, all.times_from === "flops" ? "by operations" : "planned");
      if (measured)
        add(measured, "measured");
      return [ "Times of each stage", columns, rows ];
    },
    kernels : plan => {
      // Launches are counted for a training step.
      const called = plan.explain.kernels.filter(kernel => kernel.calls > 0);
      const all = called.length ? called : [...plan.explain.kernels ];
      const rates = called.length ? plan.rates : undefined;
      // A kernel takes as long as its operations, or as its bytes.
      const secondsOf = k =>
          Math.max(k.flops / rates.flops, k.bytes / rates.bytes) * k.calls;
      const workOf = k => rates ? secondsOf(k) : k.flops * (k.calls || 1);
      const sum = all.reduce((total, k) => total + workOf(k), 0);
      const share = "share of " + (rates ? "their time" : "FLOPs");
      return [
        called.length ? "Kernels of a step of rank 0" : "Kernels of the binary",
        [
          [ "operations", "text" ], [ "FLOPs of a launch", "flops" ],
          [ "bytes of a launch", "bytes" ], [ "FLOPs for each byte", "number" ],
          ...(called.length ? [[ "launches", "number" ], [ share, "percent" ]]
                            : []),
          ...(rates ? [[ "seconds", "seconds" ], [ "bound by", "text" ]] : []),
          [ "kernel", "text" ]
        ],
        all.sort((a, b) => workOf(b) - workOf(a)).map(k => [
          k.ops, k.flops, k.bytes,
          k.bytes ? +(k.flops / k.bytes).toFixed(2) : null,
          ...(called.length ? [ k.calls, sum ? workOf(k) / sum : 0 ] : []),
          ...(rates ? [ secondsOf(k),
                        k.flops / rates.flops > k.bytes / rates.bytes
                            ? "arithmetic"
                            : "memory" ]
                    : []),
          k.name
        ])
      ];
    },
    programs :
        plan => ["Programs of the binary",
                 [
                   [ "program", "text" ], [ "kind", "text" ],
                   [ "temporary memory", "bytes" ], [ "sent in a run", "bytes" ]
                 ],
                 plan.explain.programs.map(
                     one => [one.name, one.kind, one.memory,
                             one.communication.reduce(
                                 (all, line) => all + line.bytes_sent, 0)])],
    communication : plan =>
        ["What each class of ranks sends in a step",
         [
           [ "ranks", "text" ], [ "axis", "text" ], [ "link", "text" ],
           [ "kind", "text" ],
           [ "for", "text" ], [ "calls", "number" ], [ "sent", "bytes" ],
           [ "seconds", "seconds" ]
         ],
         plan.ranks.flatMap(
             (ranks, i) => explained(plan, i).communication.flatMap(
                 line => [[
                   ranks.ranks, line.axis, linkOf(plan, line.axis), line.kind,
                   "all", line.calls, line.bytes_sent, line.seconds
                 ],
                          ...line.reasons.map(
                              reason => [ranks.ranks, line.axis,
                                         linkOf(plan, line.axis), line.kind,
                                         reason.reason, reason.calls,
                                         reason.bytes_sent, null])]))],
    moves :
        plan => ["Copies between kinds of memory in a step",
                 [
                   [ "from", "text" ], [ "to", "text" ], [ "copies", "number" ],
                   [ "copied", "bytes" ], [ "beside kernels", "bytes" ],
                   [ "at most under way", "bytes" ]
                 ],
                 plan.explain.moves.map(
                     move => [move.from, move.to, move.copies, move.bytes,
                              move.beside_kernels, move.most_under_way])],
    states : plan =>
        ["Storage of parameters and other states",
         [
           [ "ranks", "text" ], [ "state", "text" ], [ "how many", "number" ],
           [ "role", "text" ], [ "type", "text" ], [ "whole shape", "text" ],
           [ "split for use", "text" ], [ "ZeRO splits over", "text" ],
           [ "memory", "text" ], [ "bytes of the used part", "bytes" ]
         ],
         statesOf(plan).map(
             state => [state.ranks, state.name, countOf(state), state.role,
                       state.type, (state.whole ?? state.shape).join(" x "),
                       splitOf(state), state.zero ? axesOf(state.zero) : "",
                       state.memory, state.bytes])],
    modules : plan => {
      const times =
          [
            [ "seconds", "time in a step" ], [ "measured", "measured" ]
          ].filter(([ key ]) =>
                       plan.modules.some(
                           of => of.modules.some(one => key in one)));
      return [
        "Modules of the model",
        [
          [ "stages", "text" ], [ "module", "text" ], [ "how many", "number" ],
          [ "parameters", "number" ], [ "MACs", "macs" ], [ "FLOPs", "flops" ],
          [ "bytes", "bytes" ], ...times.map(([, name ]) => [name, "seconds"])
        ],
        plan.modules.flatMap(
            of => of.modules.map(
                one => [of.stages.join(", "),
                        "\u2003".repeat(one.path ? one.path.split(".").length
                                                 : 0) +
                            (one.path || plan.family),
                        countOf(one), one.parameters, one.macs, one.flops,
                        one.bytes,
                        ...times.map(([ key ]) => one[key] ?? null)])),
        true
      ];
    },
    attention : plan => ["Blocks that attention computes",
                         [
                           [ "layer", "text" ], [ "block", "number" ],
                           [ "density", "percent" ]
                         ],
                         (plan.explain.attention ??
                          []).map(one => [one.layer, one.block, one.density])],
    quantized :
        plan => ["Quantized and packed weights",
                 [
                   [ "ranks", "text" ], [ "weight", "text" ],
                   [ "how many", "number" ], [ "part", "text" ],
                   [ "bits", "number" ], [ "group", "number" ],
                   [ "bytes", "bytes" ]
                 ],
                 statesOf(plan)
                     .filter(state => state.packed)
                     .map(state => [state.ranks, state.name, countOf(state),
                                    state.packed.part, state.packed.bits,
                                    state.packed.group, state.bytes])],
    fusion :
        plan => ["Operations that share a kernel",
                 [
                   [ "operations", "text" ], [ "launches in a step", "number" ],
                   [ "kernel", "text" ]
                 ],
                 plan.explain.kernels
                     .filter(kernel => kernel.ops.includes(" + "))
                     .map(kernel => [kernel.ops, kernel.calls, kernel.name])],
    refusals : plan =>
        ["Operations that do not share a kernel, and why",
         [ [ "module", "text" ], [ "remark", "text" ], [ "times", "number" ] ],
         plan.refusals.map(one => [one.module, one.remark, one.count])],
    events : () =>
        ["Events of the run",
         [ [ "event", "text" ], [ "step", "number" ], [ "details", "text" ] ],
         data.log.events.map(event => {
           const {event : name, step, ...rest} = event;
           return [
             event.skipped ? "skipped step" : name, step ?? null,
             Object.entries(rest)
                 .map(([ key, value ]) =>
                          key + " " +
                          (typeof value === "object" ? JSON.stringify(value)
                                                     : value))
                 .join(", ")
           ];
         }),
         true],
    steps : () => {
      const byStep = new Map();
      data.log.curves.forEach(
          (curve, i) => curve.points.forEach(([ step, value ]) => {
            if (!byStep.has(step))
              byStep.set(step, Array(data.log.curves.length).fill(null));
            byStep.get(step)[i] = value;
          }));
      return [
        "Steps of the run",
        [
          [ "step", "number" ],
          ...data.log.curves.map(curve => [curve.name, "number"])
        ],
        [...byStep ].sort((a, b) => a[0] - b[0]).map(([
                                                       step, cells
                                                     ]) => [step, ...cells])
      ];
    },
  };

  // --- two plans ---

  const figuresOf = plan => {
    const all = explained(plan, 0);
    const sum = (lines, key) =>
        lines.reduce((total, line) => total + line[key], 0);
    return [
      [ "memory of a rank", "bytes", all.memory.peak ],
      ...Object.entries(all.memory.owners)
          .map(([ name, bytes ]) => [name, "bytes", bytes]),
      ...Object.entries(all.memory.kinds)
          .map(([
                 kind, of
               ]) => ["all of " + kind, "bytes", of.arena + of.persistent]),
      [ "seconds of a step", "seconds", all.step?.seconds ?? null ],
      [ "bubble", "percent", all.bubble ],
      [
        "FLOPs of the model in a step, all ranks, without recomputation",
        "flops", all.flops_per_step
      ],
      [
        "sent by a rank in a step", "bytes",
        sum(all.communication, "bytes_sent")
      ],
      ...all.communication.map(
          line => ["sent: " + line.kind + " over " + line.axis, "bytes",
                   line.bytes_sent]),
      [ "copied between kinds of memory", "bytes", sum(all.moves, "bytes") ],
      [ "ranks", "number", all.ranks ],
      [ "batch", "number", plan.batch ],
      [ "micro-batch", "number", plan.micro_batch ],
    ];
  };
  tables.compare = () => {
    const [first, second] = data.plans.map(figuresOf);
    const names = [...new Set([...first, ...second ].map(row => row[0])) ];
    const rows = names.map(name => {
      const of = rows => rows.find(row => row[0] === name);
      const [a, b] = [ of(first), of(second) ];
      const show = formats[(a ?? b)[1]];
      // What a plan does not list, it has none of.
      const none = (a ?? b)[1] === "bytes" ? 0 : null;
      const left = a?.[2] ?? none, right = b?.[2] ?? none;
      const change = left === null || right === null ? ""
                     : left === right                ? "same"
                     : (a ?? b)[1] === "percent"
                         ? (right > left ? "+" : "") +
                               (100 * (right - left)).toFixed(1) + " points"
                     : left ? (right > left ? "+" : "") +
                                  (100 * (right / left - 1)).toFixed(1) + " %"
                            : "new";
      return [
        name, left === null ? "" : show(left),
        right === null ? "" : show(right), change, left, right
      ];
    });
    const settings =
        [...new Set(data.plans.flatMap(plan => Object.keys(plan.settings))) ];
    for (const key of settings) {
      const [a, b] = data.plans.map(plan => plan.settings[key]);
      if (JSON.stringify(a) !== JSON.stringify(b))
        rows.push([
          "setting " + key, a === undefined ? "default" : JSON.stringify(a),
          b === undefined ? "default" : JSON.stringify(b), "other", null, null
        ]);
    }
    return [
      "What differs",
      [
        [ "figure", "text" ], [ data.plans[0].name + " (first)", "text" ],
        [ data.plans[1].name + " (second)", "text" ], [ "change", "text" ],
        [ "exact, first", "number" ], [ "exact, second", "number" ]
      ],
      rows, true
    ];
  };

  return {
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
  };
})();
