// RUN: heddle-opt %s --train-differentiate --split-input-file --verify-diagnostics

// The mean of a norm in the place of the losses: a statistic, whose derivative
// nobody knows. What it would be trained by is not left out without a word.
nn.model @mean family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, accumulate = 1, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  nn.state @wte role parameter : tensor<8x4xf32> {trainable}
  nn.state @ln.weight role parameter : tensor<4xf32> {trainable}
  nn.state @ln.bias role parameter : tensor<4xf32> {trainable}
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %weight = nn.get @ln.weight : tensor<4xf32>
      %bias = nn.get @ln.bias : tensor<4xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      // expected-error @+1 {{H0354: the loss depends on its result #1, and only the first has a derivative}}
      %y, %mean, %rstd = nn.layer_norm %x, %weight, %bias {eps = 1.0e-05 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
      %scale = nn.get @scale : tensor<f32>
      %weights = nn.token_weights %id scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
      %before = nn.get @loss : tensor<f32>
      %sum = nn.sum %mean weights %weights init %before : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
      nn.set @loss, %sum : tensor<f32>
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}

// -----

// The same in a layer function, and of the scores of cross-entropy.
nn.model @layer family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, accumulate = 1, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  nn.state @wte role parameter : tensor<8x4xf32> {trainable}
  nn.func @head(%x: tensor<2x3x4xf32>, %wte: tensor<8x4xf32>, %id: tensor<2x3xi32>) -> tensor<2x3xf32> {
    %z = nn.linear %x, %wte {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
    // expected-error @+1 {{H0354: the loss depends on its result #1, and only the first has a derivative}}
    %losses, %lse = nn.cross_entropy %z, %id : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    nn.return %lse : tensor<2x3xf32>
  }
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %scores = nn.call @head(%x, %wte, %id) path "head" : (tensor<2x3x4xf32>, tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3xf32>
      %scale = nn.get @scale : tensor<f32>
      %weights = nn.token_weights %id scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
      %before = nn.get @loss : tensor<f32>
      %sum = nn.sum %scores weights %weights init %before : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
      nn.set @loss, %sum : tensor<f32>
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}

// -----

// Every result of what is computed element by element has a derivative.
nn.model @both family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, accumulate = 1, seq = 3}}>,
    config = "{}", weights = {}} {
  nn.state @loss role accumulator : tensor<f32>
  nn.state @scale role scalar : tensor<f32>
  nn.state @wte role parameter : tensor<8x4xf32> {trainable}
  nn.step @train(%ids: tensor<1x2x3xi32>) -> tensor<f32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<ids>], outputs = [#nn.port<loss>]} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %id = nn.micro_batch %ids[%i] : tensor<1x2x3xi32> -> tensor<2x3xi32>
      %wte = nn.get @wte : tensor<8x4xf32>
      %x = nn.embedding %wte[%id] : (tensor<8x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
      %tanh, %square = nn.map (%a = %x) : (tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
        %0 = math.tanh %a : f64
        %1 = arith.mulf %a, %a : f64
        nn.return %0, %1 : f64, f64
      }
      %y = nn.add %tanh, %square : tensor<2x3x4xf32>
      %z = nn.linear %y, %wte {transposed} : (tensor<2x3x4xf32>, tensor<8x4xf32>) -> tensor<2x3x8xf32>
      %losses, %lse = nn.cross_entropy %z, %id : (tensor<2x3x8xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
      %scale = nn.get @scale : tensor<f32>
      %weights = nn.token_weights %id scale %scale : (tensor<2x3xi32>, tensor<f32>) -> tensor<2x3xf32>
      %before = nn.get @loss : tensor<f32>
      %sum = nn.sum %losses weights %weights init %before : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
      nn.set @loss, %sum : tensor<f32>
      nn.return
    }
    %loss = nn.get @loss : tensor<f32>
    nn.return %loss : tensor<f32>
  }
}
