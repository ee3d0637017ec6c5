// RUN: heddle-opt %s --split-input-file --model-verify --verify-diagnostics

nn.model @precise family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{precision = "bf16"}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>) -> tensor<2x8xf32> {
    // expected-error @+1 {{H0908: computes in 'f32', the strategy's precision is bf16}}
    %y = nn.linear %x, %w : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    nn.return %y : tensor<2x8xf32>
  }
}

// -----

nn.model @coarse family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4xbf16>, %w: tensor<4x8xbf16>) -> tensor<2x8xbf16> {
    // expected-error @+1 {{H0908: computes in 'bf16', the strategy's precision is fp32}}
    %y = nn.linear %x, %w : (tensor<2x4xbf16>, tensor<4x8xbf16>) -> tensor<2x8xbf16>
    nn.return %y : tensor<2x8xbf16>
  }
}

// -----

// An activation that is no product is held to the same.
nn.model @mixed family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{precision = "bf16"}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    // expected-error @+1 {{H0908: computes in 'f32', the strategy's precision is bf16}}
    %y = nn.map relu(%x) : tensor<2x4xf32>
    nn.return %y : tensor<2x4xf32>
  }
}

// -----

nn.model @unread family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0908: no function reads this parameter}}
  nn.state @w role parameter : tensor<4x8xf32>
}

// -----

nn.model @copies family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{precision = "bf16"}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<8xf32>
  // expected-error @+1 {{H0908: no function reads this parameter}}
  nn.state @w.bf16 role derived : tensor<8xbf16> {parameter = "w"}
  nn.func @f() -> tensor<8xf32> {
    %w = nn.get @w : tensor<8xf32>
    nn.return %w : tensor<8xf32>
  }
}

// -----

nn.model @steps family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0908: the model phase holds forward functions only}}
  nn.step @eval() attributes {kind = #nn.program<eval>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @writes family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role accumulator : tensor<8xf32>
  nn.func @f(%x: tensor<8xf32>) {
    // expected-error @+1 {{H0908: the model phase holds forward functions only}}
    nn.set @s, %x : tensor<8xf32>
    nn.return
  }
}

// -----

nn.model @backward family "gpt2" phase "model" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%g: tensor<2x4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{H0908: the model phase holds forward functions only}}
    %d = nn.sum_rows %g : (tensor<2x4xf32>) -> tensor<4xf32>
    nn.return %d : tensor<4xf32>
  }
}
