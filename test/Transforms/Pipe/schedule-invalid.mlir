// RUN: heddle-opt %s --split-input-file --pipe-schedule --verify-diagnostics

// expected-error @+1 {{strategy: pipeline.schedule "zb-v" is not one of gpipe, 1f1b, interleaved, zb-h1}}
nn.func @f() attributes {nn.value = #dist.strategy<{pipeline = {schedule = "zb-v"}}>} {
  nn.return
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, pipeline = {virtual_stages = 2}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+1 {{H0111: the schedule 1f1b has 1 virtual stage per rank, not 2; interleaved has several}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, pipeline = {schedule = interleaved}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+1 {{H0111: the schedule interleaved needs 2 or more virtual stages per rank; with 1 it is 1f1b}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = {global = 3, accumulate = 3}, mesh = {pipe = 2}, pipeline = {virtual_stages = 2, schedule = interleaved}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+1 {{H0111: the schedule interleaved needs micro-batches in a multiple of the 2 stages: 2 or 4, not 3}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 4}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+2 {{H0119: 4 stages (4 ranks along pipe, 1 for each) for 3 layers}}
  // expected-note @+1 {{help: at most 3 are possible}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = {global = 2, accumulate = 2}, mesh = {pipe = 2}, pipeline = {virtual_stages = 2, schedule = interleaved}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+2 {{H0119: 4 stages (2 ranks along pipe, 2 for each) for 3 layers}}
  // expected-note @+1 {{help: at most 3 are possible}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, pipeline = {layout = "1,1,1"}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+2 {{H0119: pipeline_layout "1,1,1" has 3 stages, not 2}}
  // expected-note @+1 {{help: write "1,2", or leave it out}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, pipeline = {layout = "Et*3|tL"}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+2 {{H0119: pipeline_layout "Et*3|tL" has 4 layers; the model has 3}}
  // expected-note @+1 {{help: write "1,2", or leave it out}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 4}, pipeline = {layout = "E|t*2|m|tL"}}>,
    config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+1 {{H0119: pipeline_layout "E|t*2|m|tL" has 'm'; E, t, L, |, *, parentheses and commas are possible}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.return
  }
}

// -----

// Train programs share the stages, so one of them has all layers.
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  // expected-error @+1 {{H0119: calls the layer "h.9", but @train.far, which has more layers, does not; the train programs of a model must agree on the layers of each pipeline stage}}
  nn.step @train.near() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.call @layer() path "h.9" : () -> ()
    nn.return
  }
  nn.step @train.far() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_step = 5>} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.return
  }
}
