// RUN: heddle-opt %s --import-verify --split-input-file --verify-diagnostics

nn.model @good family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<8x4xf32> {checkpointed, trainable,
      source = #nn.source<"w" : tensor<8x4xf32>>,
      init = #nn.init<normal, 0.0 : f64, 0.02 : f64>}
  nn.func @forward(%ids: tensor<1x4xi32>, %labels: tensor<1x4xi32>)
      -> tensor<1x4xf32>
      attributes {program = #nn.program<train>, inputs = [#nn.port<ids>, #nn.port<labels>],
                  outputs = [#nn.port<losses>]} {
    %w = nn.get @w : tensor<8x4xf32>
    %x = nn.embedding %w[%ids] : (tensor<8x4xf32>, tensor<1x4xi32>) -> tensor<1x4x4xf32>
    %y = nn.linear %x, %w {transposed} : (tensor<1x4x4xf32>, tensor<8x4xf32>) -> tensor<1x4x8xf32>
    %losses, %lse = nn.cross_entropy %y, %labels : (tensor<1x4x8xf32>, tensor<1x4xi32>) -> (tensor<1x4xf32>, tensor<1x4xf32>)
    nn.return %losses : tensor<1x4xf32>
  }
}

// -----

nn.model @unread family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: no function reads this parameter}}
  nn.state @w role parameter : tensor<8xf32> {source = #nn.source<"w" : tensor<8xf32>>, init = #nn.init<zeros, 0.0 : f64, 0.0 : f64>}
}

// -----

nn.model @homeless family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: a parameter needs source and init}}
  nn.state @w role parameter : tensor<8xf32> {source = #nn.source<"w" : tensor<8xf32>>}
}

// -----

nn.model @half family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: a parameter must be f32}}
  nn.state @w role parameter : tensor<8xbf16> {source = #nn.source<"w" : tensor<8xf32>>}
}

// -----

nn.model @later family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: the role gradient belongs to a later phase}}
  nn.state @w role gradient : tensor<8xf32> {parameter = "p"}
  nn.state @p role parameter : tensor<8xf32>
}

// -----

nn.model @backward family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  nn.func @f(%g: tensor<2x4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{H0396: is no forward operation: it computes a gradient}}
    %d = nn.sum_rows %g : (tensor<2x4xf32>) -> tensor<4xf32>
    nn.return %d : tensor<4xf32>
  }
}

// -----

nn.model @precise family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xbf16> {
    // expected-error @+1 {{H0396: computes in 'bf16'; precision is applied by the next phase}}
    %y = nn.cast %x : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    nn.return %y : tensor<2x4xbf16>
  }
}

// -----

// expected-error @+1 {{H0396: no function is marked as a program}}
nn.model @idle family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
}

// -----

nn.model @shapes family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: argument 0 of the program "train" must be 'tensor<1x4xi32>' (micro_batch and seq of the strategy), not 'tensor<1x5xi32>'}}
  nn.func @forward(%ids: tensor<1x5xi32>) -> tensor<1x5xi32>
      attributes {program = #nn.program<train>, inputs = [#nn.port<ids>],
                  outputs = [#nn.port<losses>]} {
    nn.return %ids : tensor<1x5xi32>
  }
}

// -----

nn.model @names family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: nothing fills the argument "idz"}}
  nn.func @forward(%ids: tensor<1x4xi32>) -> tensor<1x4xi32>
      attributes {program = #nn.program<train>, inputs = [#nn.port<value, "idz">],
                  outputs = [#nn.port<losses>]} {
    nn.return %ids : tensor<1x4xi32>
  }
}

// -----

nn.model @nameless family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: a program needs one port for every argument and result}}
  nn.func @forward(%ids: tensor<1x4xi32>) -> tensor<1x4xi32>
      attributes {program = #nn.program<train>, inputs = [#nn.port<ids>]} {
    nn.return %ids : tensor<1x4xi32>
  }
}

// -----

nn.model @serve family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+2 {{attribute 'program' failed to satisfy constraint: the kind of a step program}}
  nn.func @forward(%ids: tensor<1x4xi32>) -> tensor<1x4xi32>
      attributes {program = "serve", inputs = [#nn.port<ids>], outputs = [#nn.port<value, "x">]} {
    nn.return %ids : tensor<1x4xi32>
  }
}

// -----

nn.model @lossless family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0396: the program "eval" has 1 losses, 0 labels and 0 label_weights: each loss has its own, or all have the same}}
  nn.func @forward(%ids: tensor<1x4xi32>) -> tensor<1x4xi32>
      attributes {program = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = [#nn.port<losses>]} {
    nn.return %ids : tensor<1x4xi32>
  }
}

// -----

nn.model @twice family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  nn.state @a role parameter : tensor<2x4xf32> {source = #nn.source<slice(0, 0, 2, "x" : tensor<3x4xf32>)>,
      init = #nn.init<zeros, 0.0 : f64, 0.0 : f64>}
  // expected-error @+2 {{H0357: the tensor "x" is in a too}}
  // expected-note @+1 {{help: read each part of a tensor into one state}}
  nn.state @b role parameter : tensor<2x4xf32> {source = #nn.source<slice(0, 1, 2, "x" : tensor<3x4xf32>)>,
      init = #nn.init<zeros, 0.0 : f64, 0.0 : f64>}
  nn.func @layer() -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    %a = nn.get @a : tensor<2x4xf32>
    %b = nn.get @b : tensor<2x4xf32>
    nn.return %a, %b : tensor<2x4xf32>, tensor<2x4xf32>
  }
}

// -----

nn.model @half_read family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  // expected-error @+2 {{H0357: of the 12 elements of the tensor "x" 8 are in some state}}
  // expected-note @+1 {{help: give the rest of it a state, or a slice of one}}
  nn.state @a role parameter : tensor<2x4xf32> {source = #nn.source<slice(0, 0, 2, "x" : tensor<3x4xf32>)>,
      init = #nn.init<zeros, 0.0 : f64, 0.0 : f64>}
  nn.func @layer() -> tensor<2x4xf32> {
    %a = nn.get @a : tensor<2x4xf32>
    nn.return %a : tensor<2x4xf32>
  }
}
