// RUN: heddle-opt %s --split-input-file --pipe-verify --verify-diagnostics

// Nothing is wrong.
nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

// expected-error @+1 {{H0905: stands in place 0 of the stages}}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
    // expected-error @+1 {{H0905: has "h.0", which another stage has too}}
  pipe.stage @stage1 index 1 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

// expected-error @+1 {{H0905: there is no schedule for 2 stages}}
nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0905: runs "B0 F0", the schedule has "F0 B0"}}
    pipe.fragments "B0 F0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
    // expected-error @+1 {{H0905: is in a stage that does not have "h.1"}}
      %y = nn.call @layer(%x) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<2x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
    // expected-error @+1 {{H0905: has slot numbers below 1, the state 2 slots; 1 are needed}}
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0905: the channel "F1" has 1 sends and 0 receives between stages 0 and 1}}
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
    // expected-error @+1 {{H0905: awaits what stage 0 does not send}}
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0905: sends 'tensor<4xf32>', stage 1 receives 'tensor<8xf32>'}}
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<8xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0905: is received in another kind of fragment}}
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 1}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<2x4xf32>
  pipe.stage @stage0 index 0 calls []
  pipe.schedule @schedule micro_batches 2 ["F0 F1 B0 B1 O"]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 F1 B0 B1" slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      %0 = nn.micro_batch %x[%i] : tensor<2x4xf32> -> tensor<4xf32>
      nn.set @saved[%slot], %0 : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      %zero = arith.constant 0 : index
      // expected-error @+1 {{H0905: uses another slot than its micro-batch's}}
      %0 = nn.get @saved[%zero] : tensor<4xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 1}}>, config = "{}", weights = {}, stage = 0 : i64} {
  pipe.stage @stage0 index 0 calls []
  pipe.schedule @schedule micro_batches 2 ["F0 F1 B0 B1 O"]
  nn.step @train(%x: tensor<3x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 F1 B0 B1" slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      // expected-error @+1 {{H0905: takes one of 3 micro-batches, its stage runs 2}}
      %0 = nn.micro_batch %x[%i] : tensor<3x4xf32> -> tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}

// -----

// The stages are of one model.
nn.model @m.stage0 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}, stage = 0 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      nn.set @saved[%slot], %x : tensor<4xf32>
      %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      dist.send %y to 1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
// expected-error @+1 {{H0905: has another "weights" than the first stage}}
nn.model @m.stage1 family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {seed = 1 : i64}, stage = 1 : i64} {
  nn.state @saved role saved : tensor<1x4xf32>
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    pipe.fragments "F0 B0" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %y = dist.recv from -1 on "pipe" channel "F1" : tensor<4xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      nn.return
    }
    nn.return
  }
}
