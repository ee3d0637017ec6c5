// RUN: heddle-opt %s --split-input-file --train-verify --verify-diagnostics

nn.model @left family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0909: a program is left that is no step yet}}
  nn.func @eval() attributes {program = #nn.program<eval>} {
    nn.return
  }
}

// -----

nn.model @untouched family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0909: trainable, but it gets no gradient: the loss does not depend on it}}
  nn.state @w role parameter : tensor<64xf32> {trainable}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @still family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32> {trainable}
  nn.state @w.grad role gradient : tensor<64xf32> {parameter = "w"}
  // expected-error @+1 {{H0909: updates no parameter}}
  nn.step @train(%g: tensor<64xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = []} {
    nn.set @w.grad, %g : tensor<64xf32>
    nn.micro_batches 1 {
    ^bb0(%i: index):
      nn.return
    }
    nn.return
  }
}

// -----

// An update that is none of what it reads.
nn.model @twice family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32> {trainable}
  nn.state @w.grad role gradient : tensor<64xf32> {parameter = "w"}
  nn.bucket @one [@w] : tensor<64xf32>
  nn.bucket @two [@w] : tensor<64xf32>
  nn.step @train(%g: tensor<64xf32>, %s: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "g">, #nn.port<lr>], outputs = []} {
    nn.set @w.grad, %g : tensor<64xf32>
    // expected-error @+1 {{H0909: does not read and write parameters, and what the optimizer keeps of the same ones}}
    %p, %m, %v = nn.update "adamw" %g, %g states(%g, %g) with(%s, %s, %s) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
    nn.set @one, %p : tensor<64xf32>
    nn.set @two, %p : tensor<64xf32>
    nn.return
  }
}

// -----

// The gradient comes after the update.
nn.model @late family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32> {trainable}
  nn.state @w.grad role gradient : tensor<64xf32> {parameter = "w"}
  nn.bucket @parameters [@w] : tensor<64xf32>
  nn.bucket @gradients [@w.grad] : tensor<64xf32>
  nn.step @train(%g: tensor<64xf32>, %s: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "g">, #nn.port<lr>], outputs = []} {
    // expected-error @+1 {{H0909: reads the gradient @w.grad before it is written}}
    %old = nn.get @gradients : tensor<64xf32>
    %p, %m, %v = nn.update "adamw" %g, %old states(%g, %g) with(%s, %s, %s) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
    nn.set @parameters, %p : tensor<64xf32>
    nn.set @w.grad, %g : tensor<64xf32>
    nn.return
  }
}

// -----

// A set that is written twice.
nn.model @doubled family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  nn.step @eval(%x: tensor<1x64xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    %0 = nn.fill 0.0 : () -> tensor<f32>
    // expected-note @+1 {{written here}}
    nn.set @loss, %0 : tensor<f32>
    // expected-error @+1 {{H0909: writes @loss again: nothing has read what was written}}
    nn.set @loss, %0 : tensor<f32>
    nn.return
  }
}

// -----

// Sums are read after they were set to zero.
nn.model @unset family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  nn.step @eval() -> tensor<f32> attributes {kind = #nn.program<eval>, inputs = [], outputs = [#nn.port<loss>]} {
    // expected-error @+1 {{H0909: reads the accumulator @loss before it is written}}
    %0 = nn.get @loss : tensor<f32>
    nn.return %0 : tensor<f32>
  }
}

// -----

nn.model @overwritten family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  nn.step @eval() attributes {kind = #nn.program<eval>, inputs = [], outputs = []} {
    %0 = nn.get @w : tensor<64xf32>
    // expected-error @+1 {{H0909: writes what no optimizer computes to the parameter @w}}
    nn.set @w, %0 : tensor<64xf32>
    nn.return
  }
}

// -----

nn.model @renamed family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  // expected-error @+1 {{H0909: is the gradient of @w and has to be named @w.grad}}
  nn.state @g role gradient : tensor<64xf32> {parameter = "w"}
}

// -----

nn.model @renamed_copy family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{precision = bf16}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  // expected-error @+1 {{H0909: is the copy of @w and has to be named @w.bf16}}
  nn.state @w.fp16 role derived : tensor<64xbf16> {parameter = "w"}
}

// -----

nn.model @filled family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4xf32>
  nn.state @w.grad role gradient : tensor<4xf32> {parameter = "w"}
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    // expected-error @+1 {{H0909: begins the gradient @w.grad with 5.000000e-01 : f64; gradients begin with 0}}
    %0 = nn.fill 5.000000e-01 : () -> tensor<4xf32>
    nn.set @w.grad, %0 : tensor<4xf32>
    nn.return
  }
}

// -----

// One gradient passed twice to a block, which adds to both.
nn.model @passed_twice family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  nn.state @w.grad role gradient : tensor<64xf32> {parameter = "w"}
  nn.func @f(%a: tensor<64xf32>, %b: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
    nn.return %a, %b : tensor<64xf32>, tensor<64xf32>
  }
  nn.step @eval(%x: tensor<64xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    nn.set @w.grad, %x : tensor<64xf32>
    nn.micro_batches 1 {
    ^bb0(%i: index):
    // expected-error @+1 {{H0909: reads the gradient @w.grad for something else than to add to it, once}}
    %0 = nn.get @w.grad : tensor<64xf32>
    %1, %2 = nn.call @f(%0, %0) path "f" : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>)
    nn.set @w.grad, %1 : tensor<64xf32>
    nn.return
    }
    nn.return
  }
}

// -----

nn.model @slots family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  nn.state @s role saved : tensor<2x64xf32>
  nn.step @eval(%x: tensor<2x64xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    // expected-error @+1 {{H0909: has no slot of @s, which holds one for each}}
    nn.set @s, %x : tensor<2x64xf32>
    nn.return
  }
}

// -----

nn.model @endless family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  nn.step @eval(%x: tensor<1x64xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    // expected-error @+1 {{H0909: runs 9223372036854775807 times; there are 1 micro-batches}}
    nn.micro_batches 9223372036854775807 {
    ^bb0(%i: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @beyond family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  nn.step @eval(%x: tensor<3x64xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %0 = nn.fill 0.0 : () -> tensor<1x64xf32>
      // expected-error @+1 {{H0909: is no part of an input}}
      %1 = nn.micro_batch %0[%i] : tensor<1x64xf32> -> tensor<64xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @unfilled family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @w role parameter : tensor<64xf32>
  // expected-error @+1 {{H0909: nothing fills the input "idz"}}
  nn.step @eval(%x: tensor<1x64xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "idz">], outputs = []} {
    nn.return
  }
}
