// RUN: heddle-opt %s --split-input-file --pipe-verify --verify-diagnostics

// A step that is not trained has no schedule.
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @eval() attributes {kind = #nn.program<eval>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0905: the training step has no schedule}}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  pipe.stage @stage0 index 0 calls ["h.0"]
  // expected-error @+1 {{H0905: has 2 lines of 1 chunks for 1 stages}}
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O"]
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    // expected-error @+1 {{H0905: runs 2 micro-batches, the schedule 1}}
    nn.micro_batches 2 {
    ^bb0(%i: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  pipe.stage @stage0 index 0 calls []
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O"]
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    // expected-error @+1 {{H0905: is in 0 stages; one is right}}
    nn.call @layer() path "h.0" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    // expected-error @+1 {{H0905: is in 2 stages; one is right}}
    nn.call @layer() path "h.0" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  pipe.stage @stage0 index 0 calls ["h.0"]
  // expected-error @+1 {{H0905: stands in place 1}}
  pipe.stage @stage2 index 2 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  pipe.stage @stage0 index 0 calls ["h.0"]
  // expected-error @+1 {{H0905: has 1 lines of 2 chunks for 1 stages}}
  pipe.schedule @schedule micro_batches 1 ["F0 F0/1 B0/1 B0 O"]
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}
