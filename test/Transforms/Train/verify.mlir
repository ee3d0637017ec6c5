// RUN: heddle-opt %s --split-input-file --train-verify --verify-diagnostics

nn.model @left family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0909: a program is left that is no step yet}}
  nn.func @eval() attributes {program = "eval"} {
    nn.return
  }
}

// -----

nn.model @untouched family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0909: trainable, but it gets no gradient: the loss does not depend on it}}
  nn.state @w role "parameter" : tensor<64xf32> {trainable}
  nn.step @train() attributes {kind = "train", arg_names = [], result_names = []} {
    nn.return
  }
}

// -----

nn.model @still family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0909: updated 0 times in a step; once is right}}
  nn.state @w role "parameter" : tensor<64xf32> {trainable}
  nn.state @w.grad role "gradient" : tensor<64xf32> {parameter = "w"}
  nn.step @train(%g: tensor<64xf32>) attributes {kind = "train", arg_names = ["g"], result_names = []} {
    nn.set @w.grad, %g : tensor<64xf32>
    nn.return
  }
}

// -----

// Updated in two buckets.
nn.model @twice family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0909: updated 2 times in a step; once is right}}
  nn.state @w role "parameter" : tensor<64xf32> {trainable}
  nn.state @w.grad role "gradient" : tensor<64xf32> {parameter = "w"}
  nn.bucket @one [@w] : tensor<64xf32>
  nn.bucket @two [@w] : tensor<64xf32>
  nn.step @train(%g: tensor<64xf32>, %s: tensor<f32>) attributes {kind = "train", arg_names = ["g", "lr"], result_names = []} {
    nn.set @w.grad, %g : tensor<64xf32>
    %p, %m, %v = nn.adamw %g, %g, %g, %g lr %s bias %s, %s {beta1 = 0.9 : f64, beta2 = 0.9 : f64, eps = 0.1 : f64, weight_decay = 0.0 : f64} : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    nn.set @one, %p : tensor<64xf32>
    nn.set @two, %p : tensor<64xf32>
    nn.return
  }
}

// -----

// The gradient comes after the update.
nn.model @late family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role "parameter" : tensor<64xf32> {trainable}
  nn.state @w.grad role "gradient" : tensor<64xf32> {parameter = "w"}
  nn.bucket @parameters [@w] : tensor<64xf32>
  nn.bucket @gradients [@w.grad] : tensor<64xf32>
  nn.step @train(%g: tensor<64xf32>, %s: tensor<f32>) attributes {kind = "train", arg_names = ["g", "lr"], result_names = []} {
    // expected-error @+1 {{H0909: reads the gradient @w.grad before it is written}}
    %old = nn.get @gradients : tensor<64xf32>
    %p, %m, %v = nn.adamw %g, %old, %g, %g lr %s bias %s, %s {beta1 = 0.9 : f64, beta2 = 0.9 : f64, eps = 0.1 : f64, weight_decay = 0.0 : f64} : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    nn.set @parameters, %p : tensor<64xf32>
    nn.set @w.grad, %g : tensor<64xf32>
    nn.return
  }
}
