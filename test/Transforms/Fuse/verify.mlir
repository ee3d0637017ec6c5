// RUN: heddle-opt %s --split-input-file --fuse-verify --verify-diagnostics

// What is in a kernel is well placed.
nn.model @good family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @relu(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0907: is in no kernel}}
    %0 = nn.map relu(%x) : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f() {
    // expected-error @+1 {{H0907: is in no kernel}}
    %0 = nn.fill 0.0 : () -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      // expected-error @+1 {{H0907: is in no kernel}}
      %0 = nn.fill 0.0 : () -> tensor<4xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0907: has the generator "gemm", its body that begins with nn.map has "rows"}}
  plan.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @k(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>)
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
    %0 = nn.map relu(%x) : tensor<4xf32>
    // expected-error @+1 {{H0907: cannot be in this kernel: it goes over another shape}}
    %1 = nn.map relu(%y) : tensor<8xf32>
    plan.yield %0, %1 : tensor<4xf32>, tensor<8xf32>
  }
}

// -----

// What GPUs sum, CPUs do not.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @k(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
    %0 = nn.map relu(%x) : tensor<4x8xf32>
    // expected-error @+1 {{H0907: cannot be in this kernel: kernels over rows of this target sum none of them}}
    %1 = nn.sum_rows %0 : (tensor<4x8xf32>) -> tensor<8xf32>
    plan.yield %0, %1 : tensor<4x8xf32>, tensor<8xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    // expected-error @+1 {{H0907: cannot take the place of argument 0 of the kernel}}
    %0 = nn.map relu(%x) : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
}

// -----

// A sum in the place of what it adds to: the old value is read again.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role accumulator : tensor<4xf32> {init = #nn.init<zeros, 0.0 : f64, 0.0 : f64>}
  plan.kernel @add(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  nn.step @train(%y: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "y">], outputs = []} {
    %0 = nn.get @s : tensor<4xf32>
    // expected-error @+1 {{H0907: overwrites its operand 0, which is read afterwards}}
    %1 = plan.launch @add(%0, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // expected-note @+1 {{it is read here}}
    nn.set @s, %0 : tensor<4xf32>
    nn.return
  }
}

// -----

// The sum does not go where its operand came from.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role accumulator : tensor<4xf32> {init = #nn.init<zeros, 0.0 : f64, 0.0 : f64>}
  plan.kernel @add(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  nn.step @train(%y: tensor<4xf32>) -> tensor<4xf32>
      attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "y">], outputs = [#nn.port<value, "z">]} {
    %0 = nn.get @s : tensor<4xf32>
    // expected-error @+1 {{H0907: overwrites its operand 0, of @s, which gets no other value}}
    %1 = plan.launch @add(%0, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    nn.return %1 : tensor<4xf32>
  }
}

// -----

// Nor does it leave the function in which it was an argument.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @add(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  nn.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) {
    // expected-error @+1 {{H0907: overwrites its operand 0, the function's, and returns no result for it}}
    %0 = plan.launch @add(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    nn.return
  }
}

// -----

// What a state holds is not overwritten.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role accumulator : tensor<4xf32>
  nn.state @t role accumulator : tensor<4xf32>
  plan.kernel @add(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.kernel @relu(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  nn.step @train(%y: tensor<4xf32>) attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "y">], outputs = []} {
    %0 = plan.launch @relu(%y) : (tensor<4xf32>) -> tensor<4xf32>
    // expected-note @+1 {{it is written there here}}
    nn.set @s, %0 : tensor<4xf32>
    // expected-error @+1 {{H0907: overwrites its operand 0, which @s holds}}
    %1 = plan.launch @add(%0, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    nn.set @t, %1 : tensor<4xf32>
    nn.return
  }
}

// -----

// Gradients begin with 0, padding and all.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4xf32> {trainable}
  nn.state @w.grad role gradient : tensor<4xf32> {parameter = "w"}
  nn.bucket @gradients [@w.grad] : tensor<64xf32>
  plan.kernel @fill() -> tensor<64xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    // expected-error @+1 {{H0907: begins the gradient @gradients with -1.000000e+00 : f64; gradients begin with 0}}
    %0 = nn.fill -1.0 : () -> tensor<64xf32>
    plan.yield %0 : tensor<64xf32>
  }
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    %0 = plan.launch @fill() : () -> tensor<64xf32>
    nn.set @gradients, %0 : tensor<64xf32>
    nn.return
  }
}

// -----

// What a product sums beside, the target says: CPUs nothing.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @k(%x: tensor<4x6xf32>, %g: tensor<4x8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>)
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
    %0 = nn.linear_grad_weight %x, %g : (tensor<4x6xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
    // expected-error @+1 {{H0907: cannot be in this kernel: products of this target sum none of what they multiply}}
    %1 = nn.sum_rows %g : (tensor<4x8xf32>) -> tensor<8xf32>
    plan.yield %0, %1 : tensor<6x8xf32>, tensor<8xf32>
  }
}

// -----

// A part of a value is overwritten, of which something else reads the whole.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  plan.kernel @add(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<64xf32>
    plan.yield %0 : tensor<64xf32>
  }
  nn.step @train(%x: tensor<128xf32>, %y: tensor<64xf32>) -> (tensor<64xf32>, tensor<128xf32>)
      attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "y">], outputs = [#nn.port<value, "z">, #nn.port<value, "w">]} {
    %0, %1 = nn.unpack %x : (tensor<128xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    // expected-error @+1 {{H0907: overwrites its operand 0, a part of what something else reads}}
    %2 = plan.launch @add(%0, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    nn.return %2, %x : tensor<64xf32>, tensor<128xf32>
  }
}

// -----

// Gaps between rows: for targets that have code for them, of all values of a
// shape, alike in every launch, and of no value that is not the kernels' own.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0907: has padding between rows, which its generator has no code for}}
  plan.kernel @relu(%x: tensor<4x7xf32>) -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, leading_dimensions = array<i64: 8, 8>} {
    %0 = nn.map relu(%x) : tensor<4x7xf32>
    plan.yield %0 : tensor<4x7xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0907: has padding between rows of operand 0 or of operand 1, but not of both}}
  plan.kernel @relu(%x: tensor<4x7xf32>) -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, leading_dimensions = array<i64: 8, 0>} {
    %0 = nn.map relu(%x) : tensor<4x7xf32>
    plan.yield %0 : tensor<4x7xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  plan.kernel @fill() -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, leading_dimensions = array<i64: 8>} {
    %0 = nn.fill 1.0 : () -> tensor<4x7xf32>
    plan.yield %0 : tensor<4x7xf32>
  }
  plan.kernel @relu(%x: tensor<4x7xf32>) -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<4x7xf32>
    plan.yield %0 : tensor<4x7xf32>
  }
  nn.func @f() -> tensor<4x7xf32> {
    %0 = plan.launch @fill() : () -> tensor<4x7xf32>
    // expected-error @+1 {{H0907: has rows 0 elements apart as operand 0, and another launch 8 (0: without padding)}}
    %1 = plan.launch @relu(%0) : (tensor<4x7xf32>) -> tensor<4x7xf32>
    nn.return %1 : tensor<4x7xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  plan.kernel @fill() -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, leading_dimensions = array<i64: 8>} {
    %0 = nn.fill 1.0 : () -> tensor<4x7xf32>
    plan.yield %0 : tensor<4x7xf32>
  }
  nn.func @f() -> tensor<4x7xf32> {
    // expected-error @+1 {{H0907: has padding between the rows of operand 0, which not only kernels make and read}}
    %0 = plan.launch @fill() : () -> tensor<4x7xf32>
    nn.return %0 : tensor<4x7xf32>
  }
}
