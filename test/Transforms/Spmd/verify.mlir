// RUN: heddle-opt %s --split-input-file --spmd-verify --verify-diagnostics

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0906: a sharding is left}}
    %0 = nn.map relu(%x) {shardings = [#dist.sharding<[[], []], unreduced []>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0906: a sharding is left}}
    %0 = dist.reshard %x from <[["data"], []], unreduced []> to <[[], []], unreduced []> for "x" : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0906: a sharding is left}}
  nn.func @f() attributes {arg_shardings = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0906: a sharding is left}}
  nn.step @eval() attributes {kind = #nn.program<eval>, inputs = [], outputs = [], result_shardings = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<4xf32>) -> tensor<12xf32> {
    // expected-error @+1 {{H0906: gives 'tensor<12xf32>' from 'tensor<4xf32>' over 2 ranks along ["data"]}}
    %0 = dist.all_gather %x axes ["data"] dim 0 for "x" : tensor<4xf32> -> tensor<12xf32>
    nn.return %0 : tensor<12xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op has 'tensor<8x12xf32>', which is no rank's part of 'tensor<8x24xf32>' split by #dist.sharding<[[], ["tensor"]], unreduced []> with segments array<i64}}
  nn.state @w role parameter : tensor<8x12xf32> {
      whole = tensor<8x24xf32>, segments = array<i64: 100, 8, 8>,
      storage = #dist.sharding<[[], ["tensor"]], unreduced []>}
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op does not say how the port "x" is split: it needs whole and sharding}}
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">],
      outputs = [], ports = {x = {whole = tensor<4x4xf32>}}} {
    nn.return
  }
}

// -----

// A gradient that no step clears holds what the step before left.

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4xf32>
  nn.state @w.grad role gradient : tensor<4xf32> {parameter = "w"}
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0906: reads the gradient @w.grad before it is written}}
    %0 = nn.get @w.grad : tensor<4xf32>
    %1 = nn.sum_rows %x init %0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<4xf32>
    nn.set @w.grad, %1 : tensor<4xf32>
    nn.return
  }
}

// -----

// The update of a parameter of which each rank updates a part, in a kernel: averages and averages of squares change places.

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<8xf32> {trainable}
  nn.state @w.exp_avg role optimizer : tensor<8xf32> {parameter = "w"}
  nn.state @w.exp_avg_sq role optimizer : tensor<8xf32> {parameter = "w"}
  plan.kernel @adamw(%p: tensor<4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>, %s: tensor<f32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0, 2, 3>} {
    %0:3 = nn.update "adamw" %p, %g states(%m, %v) with(%s, %s, %s) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
    plan.yield %0#0, %0#1, %0#2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  nn.step @train(%g: tensor<4xf32>, %s: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "y">], outputs = []} {
    %0 = nn.get @w : tensor<8xf32>
    %1 = dist.slice %0 axes ["data"] dim 0 for "nn.update" : tensor<8xf32> -> tensor<4xf32>
    %m = nn.get @w.exp_avg : tensor<8xf32>
    %2 = dist.slice %m axes ["data"] dim 0 for "nn.update" : tensor<8xf32> -> tensor<4xf32>
    %v = nn.get @w.exp_avg_sq : tensor<8xf32>
    %3 = dist.slice %v axes ["data"] dim 0 for "nn.update" : tensor<8xf32> -> tensor<4xf32>
    // expected-error @+1 {{H0906: does not read and write parameters, and what the optimizer keeps of the same ones, in one order}}
    %4:3 = plan.launch @adamw(%1, %g, %2, %3, %s)
        : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>)
        -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %5 = dist.all_gather %4#0 axes ["data"] dim 0 for "nn.set" : tensor<4xf32> -> tensor<8xf32>
    nn.set @w, %5 : tensor<8xf32>
    %6 = dist.all_gather %4#2 axes ["data"] dim 0 for "nn.set" : tensor<4xf32> -> tensor<8xf32>
    nn.set @w.exp_avg, %6 : tensor<8xf32>
    %7 = dist.all_gather %4#1 axes ["data"] dim 0 for "nn.set" : tensor<4xf32> -> tensor<8xf32>
    nn.set @w.exp_avg_sq, %7 : tensor<8xf32>
    nn.return
  }
}

// -----

// The update of a parameter of which each rank updates a part, in a kernel: right.

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<8xf32> {trainable}
  nn.state @w.exp_avg role optimizer : tensor<8xf32> {parameter = "w"}
  nn.state @w.exp_avg_sq role optimizer : tensor<8xf32> {parameter = "w"}
  plan.kernel @adamw(%p: tensor<4xf32>, %g: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>, %s: tensor<f32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0, 2, 3>} {
    %0:3 = nn.update "adamw" %p, %g states(%m, %v) with(%s, %s, %s) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
    plan.yield %0#0, %0#1, %0#2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  nn.step @train(%g: tensor<4xf32>, %s: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "y">], outputs = []} {
    %0 = nn.get @w : tensor<8xf32>
    %1 = dist.slice %0 axes ["data"] dim 0 for "nn.update" : tensor<8xf32> -> tensor<4xf32>
    %m = nn.get @w.exp_avg : tensor<8xf32>
    %2 = dist.slice %m axes ["data"] dim 0 for "nn.update" : tensor<8xf32> -> tensor<4xf32>
    %v = nn.get @w.exp_avg_sq : tensor<8xf32>
    %3 = dist.slice %v axes ["data"] dim 0 for "nn.update" : tensor<8xf32> -> tensor<4xf32>
    %4:3 = plan.launch @adamw(%1, %g, %2, %3, %s)
        : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>)
        -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    %5 = dist.all_gather %4#0 axes ["data"] dim 0 for "nn.set" : tensor<4xf32> -> tensor<8xf32>
    nn.set @w, %5 : tensor<8xf32>
    %6 = dist.all_gather %4#1 axes ["data"] dim 0 for "nn.set" : tensor<4xf32> -> tensor<8xf32>
    nn.set @w.exp_avg, %6 : tensor<8xf32>
    %7 = dist.all_gather %4#2 axes ["data"] dim 0 for "nn.set" : tensor<4xf32> -> tensor<8xf32>
    nn.set @w.exp_avg_sq, %7 : tensor<8xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<4xf32>) -> tensor<8xf32> {
    %0 = dist.all_gather %x axes ["data"] dim 0 for "x" : tensor<4xf32> -> tensor<8xf32>
    // expected-error @+1 {{H0906: waits for what is not pending}}
    %1 = dist.wait %0 : tensor<8xf32>
    nn.return %1 : tensor<8xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    // expected-error @+1 {{H0906: @w.exp_avg is in memory of the kind file: it is read with dist.fetch and written with dist.store}}
    %m = nn.get @w.exp_avg : tensor<128xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    // This is right.
    %p0, %p1 = nn.unpack %p : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %g0, %g1 = nn.unpack %g : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %m0 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
    %m1 = dist.fetch @w.exp_avg[64] : tensor<64xf32>
    %u0:2 = nn.update "momentum" %p0, %g0 states(%m0) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[0], %u0#1 : tensor<64xf32>
    %u1:2 = nn.update "momentum" %p1, %g1 states(%m1) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[64], %u1#1 : tensor<64xf32>
    %q = nn.pack %u0#0, %u1#0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    nn.set @w, %q : tensor<128xf32>
    dist.flush 0
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    %p0, %p1 = nn.unpack %p : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %g0, %g1 = nn.unpack %g : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %m0 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
    %m1 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
    %u0:2 = nn.update "momentum" %p0, %g0 states(%m0) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[0], %u0#1 : tensor<64xf32>
    // expected-error @+1 {{H0906: does not read and write parameters, and what the optimizer keeps of the same ones, in one order}}
    %u1:2 = nn.update "momentum" %p1, %g1 states(%m1) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[64], %u1#1 : tensor<64xf32>
    %q = nn.pack %u0#0, %u1#0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    nn.set @w, %q : tensor<128xf32>
    dist.flush 0
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    %p0, %p1 = nn.unpack %p : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %g0, %g1 = nn.unpack %g : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %m0 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
    %m1 = dist.fetch @w.exp_avg[64] : tensor<64xf32>
    %u0:2 = nn.update "momentum" %p0, %g0 states(%m0) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[0], %u0#1 : tensor<64xf32>
    // expected-error @+1 {{H0906: does not read and write parameters, and what the optimizer keeps of the same ones, in one order}}
    %u1:2 = nn.update "momentum" %p1, %g1 states(%m1) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[0], %u1#1 : tensor<64xf32>
    %q = nn.pack %u0#0, %u1#0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    nn.set @w, %q : tensor<128xf32>
    dist.flush 0
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    %p0, %p1 = nn.unpack %p : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %g0, %g1 = nn.unpack %g : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %m0 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
    %m1 = dist.fetch @w.exp_avg[64] : tensor<64xf32>
    // expected-error @+1 {{H0906: does not read and write parameters, and what the optimizer keeps of the same ones, in one order}}
    %u0:2 = nn.update "momentum" %p0, %g0 states(%m0) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[0], %u0#1 : tensor<64xf32>
    %u1:2 = nn.update "momentum" %p1, %g1 states(%m1) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[64], %u1#1 : tensor<64xf32>
    %q = nn.pack %u1#0, %u0#0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    nn.set @w, %q : tensor<128xf32>
    dist.flush 0
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    %p1, %p0 = nn.unpack %p : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %g0, %g1 = nn.unpack %g : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %m0 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
    %m1 = dist.fetch @w.exp_avg[64] : tensor<64xf32>
    // expected-error @+1 {{H0906: does not read and write parameters, and what the optimizer keeps of the same ones, in one order}}
    %u0:2 = nn.update "momentum" %p0, %g0 states(%m0) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[0], %u0#1 : tensor<64xf32>
    %u1:2 = nn.update "momentum" %p1, %g1 states(%m1) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[64], %u1#1 : tensor<64xf32>
    %q = nn.pack %u0#0, %u1#0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    nn.set @w, %q : tensor<128xf32>
    dist.flush 0
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %m0 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
      // expected-error @+1 {{H0906: reads @w.exp_avg, which is the optimizer's}}
      %r = nn.map relu(%m0) : tensor<64xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    %f = nn.fill 0.0 : () -> tensor<64xf32>
    // expected-error @+1 {{H0906: writes what no optimizer computes to @w.exp_avg}}
    dist.store @w.exp_avg[0], %f : tensor<64xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.grad role gradient : tensor<128xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<128xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %x : tensor<128xf32>
    %p = nn.get @w : tensor<128xf32>
    %g = nn.get @w.grad : tensor<128xf32>
    %p0, %p1 = nn.unpack %p : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %g0, %g1 = nn.unpack %g : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    %m0 = dist.fetch @w.exp_avg[0] : tensor<64xf32>
    %m1 = dist.fetch @w.exp_avg[64] : tensor<64xf32>
    // expected-error @+1 {{H0906: updates parameters from element 64 on, those before up to element 0}}
    %u1:2 = nn.update "momentum" %p1, %g1 states(%m1) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[64], %u1#1 : tensor<64xf32>
    %u0:2 = nn.update "momentum" %p0, %g0 states(%m0) with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %s = arith.addf %c, %b : f64
      nn.return %s, %s : f64, f64
    }
    dist.store @w.exp_avg[0], %u0#1 : tensor<64xf32>
    %q = nn.pack %u0#0, %u1#0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    nn.set @w, %q : tensor<128xf32>
    dist.flush 0
    nn.return
  }
}

// -----

// What comes behind the update would be lost.
nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32> {trainable}
  nn.state @w.grad role gradient : tensor<64xf32> {parameter = "w"}
  nn.step @train(%x: tensor<64xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      nn.set @w.grad, %x : tensor<64xf32>
      %p = nn.get @w : tensor<64xf32>
      %0 = nn.update "sgd" %p, %x with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32> {
      ^bb0(%a: f64, %b: f64, %c: f64):
        %1 = arith.mulf %b, %c : f64
        %2 = arith.subf %a, %1 : f64
        nn.return %2 : f64
      }
      nn.set @w, %0 : tensor<64xf32>
      // expected-error @+1 {{H0906: writes the gradient @w.grad when its parameter is updated}}
      nn.set @w.grad, %x : tensor<64xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32> {trainable}
  nn.step @train(%x: tensor<64xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.micro_batches 3 {
    ^bb0(%i: index):
      %p = nn.get @w : tensor<64xf32>
      // expected-error @+1 {{H0906: updates once in each of 3 micro-batches}}
      %0 = nn.update "sgd" %p, %x with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32> {
      ^bb0(%a: f64, %b: f64, %c: f64):
        %1 = arith.mulf %b, %c : f64
        %2 = arith.subf %a, %1 : f64
        nn.return %2 : f64
      }
      nn.set @w, %0 : tensor<64xf32>
      nn.return
    }
    nn.return
  }
}

// -----

// A number that is kept for the next step is that state's.
nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @clip role optimizer : tensor<f32>
  nn.state @labels role optimizer : tensor<f32>
  nn.step @train(%x: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %before = nn.get @clip : tensor<f32>
    // expected-error @+1 {{H0906: reads @clip, and writes another state}}
    %0 = nn.update "delay" %before, %x : (tensor<f32>, tensor<f32>) -> tensor<f32> {
    ^bb0(%a: f64, %b: f64):
      nn.return %b : f64
    }
    nn.set @labels, %0 : tensor<f32>
    nn.return
  }
}

// -----

// The last fragment alone has all gradients.
nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32> {trainable}
  nn.step @train(%x: tensor<64xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    pipe.fragments "B0 B1" slots [1] {
    ^bb0(%i: index, %s: index):
      %p = nn.get @w : tensor<64xf32>
      // expected-error @+1 {{H0906: updates once in each of 2 micro-batches}}
      %0 = nn.update "sgd" %p, %x with(%lr) : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32> {
      ^bb0(%a: f64, %b: f64, %c: f64):
        %1 = arith.mulf %b, %c : f64
        %2 = arith.subf %a, %1 : f64
        nn.return %2 : f64
      }
      nn.set @w, %0 : tensor<64xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<128xf32> {trainable}
  nn.state @w.exp_avg role optimizer : tensor<128xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @eval(%ids: tensor<4xi32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    // expected-error @+1 {{H0906: reads rows of @w.exp_avg, which no layer computes with}}
    %0 = dist.fetch_rows @w.exp_avg[0] of 16 at %ids : tensor<4xi32> -> tensor<4x8xf32>
    nn.return
  }
}
