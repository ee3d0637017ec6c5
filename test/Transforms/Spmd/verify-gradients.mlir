// RUN: heddle-opt %s --spmd-verify --split-input-file --verify-diagnostics

// Gradients that are not in the device's memory.

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<2048xf32>
  nn.state @w.grad role gradient : tensor<2048xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<1024xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      dist.store @w.grad[0], %x : tensor<1024xf32>
      dist.store @w.grad[1024], %x : tensor<1024xf32>
      %g = dist.fetch @w.grad[1024] : tensor<1024xf32>
      %s = nn.add %g, %x : tensor<1024xf32>
      dist.store @w.grad[1024], %s : tensor<1024xf32>
      dist.flush 0
      nn.return
    }
    %all = dist.fetch @w.grad[0] : tensor<2048xf32>
    %norm = nn.global_norm %all : (tensor<2048xf32>) -> tensor<f32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<2048xf32>
  nn.state @w.grad role gradient : tensor<2048xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<1000xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0906: stores elements 0 to 1000 of @w.grad, which are no whole pages of a file}}
    dist.store @w.grad[0], %x : tensor<1000xf32>
    dist.flush 0
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<2048xf32>
  nn.state @w.grad role gradient : tensor<2048xf32> {parameter = "w", memory = #nn<memory file>}
  nn.step @train(%x: tensor<1024xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0906: fetches the gradient @w.grad before it is stored}}
    %all = dist.fetch @w.grad[0] : tensor<2048xf32>
    %norm = nn.global_norm %all : (tensor<2048xf32>) -> tensor<f32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<1024xf32>
  nn.state @w.grad role gradient : tensor<1024xf32> {parameter = "w", memory = #nn<memory host>}
  nn.step @train(%x: tensor<1024xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    dist.store @w.grad[0], %x : tensor<1024xf32>
    dist.flush 0
    nn.micro_batches 1 {
    ^bb0(%i: index):
      // expected-error @+1 {{H0906: fetches gradients of @w.grad for something else than to add to them, and to store them}}
      %g = dist.fetch @w.grad[0] : tensor<1024xf32>
      %s = nn.add %g, %x : tensor<1024xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<1024xf32> {trainable}
  nn.state @w.grad role gradient : tensor<1024xf32> {parameter = "w", memory = #nn<memory host>}
  nn.step @train(%x: tensor<1024xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    %p = nn.get @w : tensor<1024xf32>
    %0 = nn.update "sgd" %p, %x with(%lr) : (tensor<1024xf32>, tensor<1024xf32>, tensor<f32>) -> tensor<1024xf32> {
    ^bb0(%a: f64, %b: f64, %c: f64):
      %1 = arith.mulf %b, %c : f64
      %2 = arith.subf %a, %1 : f64
      nn.return %2 : f64
    }
    // expected-error @+1 {{H0906: writes what the optimizer computes to the gradients @w.grad}}
    dist.store @w.grad[0], %0 : tensor<1024xf32>
    nn.set @w, %0 : tensor<1024xf32>
    dist.flush 0
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<1024xf32> {trainable}
  nn.state @w.grad role gradient : tensor<1024xf32> {parameter = "w", memory = #nn<memory host>}
  nn.step @train(%x: tensor<1024xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    %p = nn.get @w : tensor<1024xf32>
    %0 = nn.update "sgd" %p, %x with(%lr) : (tensor<1024xf32>, tensor<1024xf32>, tensor<f32>) -> tensor<1024xf32> {
    ^bb0(%a: f64, %b: f64, %c: f64):
      %1 = arith.mulf %b, %c : f64
      %2 = arith.subf %a, %1 : f64
      nn.return %2 : f64
    }
    nn.set @w, %0 : tensor<1024xf32>
    // expected-error @+1 {{H0906: writes the gradient @w.grad when its parameter is updated}}
    dist.store @w.grad[0], %x : tensor<1024xf32>
    dist.flush 0
    nn.return
  }
}
