// RUN: heddle-opt %s -split-input-file -verify-diagnostics -cpu-compile-kernels

nn.model @m family "gpt2" phase "fuse" attributes {
    config = "{}", strategy = #dist.strategy<{march = "native"}>, weights = {}} {
  plan.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32>
      // expected-error @+2 {{expected ::heddle::nn::Generator to be one of: rows, columns, reduce, scatter, block_sums, gemm, attention}}
      // expected-error @+1 {{failed to parse Plan_GeneratorAttr parameter 'value'}}
      attributes {generator = #plan.generator<rwos>, ties = array<i64: -1>} {
    %y = nn.map relu(%x) : tensor<4xf32>
    plan.yield %y : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    config = "{}", strategy = #dist.strategy<{march = "native"}>, weights = {}} {
  // expected-error @below {{its generator is not "columns"}}
  plan.kernel @k(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
      attributes {generator = #plan.generator<columns>, ties = array<i64: -1, -1>} {
    %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5}
        : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    plan.yield %y, %r : tensor<4x8xf32>, tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    config = "{}", strategy = #dist.strategy<{march = "native"}>, weights = {}} {
  // expected-error @below {{holds more than one matrix product}}
  plan.kernel @k(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32>
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1>} {
    %y = nn.linear %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %z = nn.linear %y, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    plan.yield %z : tensor<4x8xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    config = "{}", strategy = #dist.strategy<{march = "native"}>, weights = {}} {
  // expected-error @below {{yields a value twice}}
  plan.kernel @k(%qkv: tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x4x8xf32>)
      attributes {generator = #plan.generator<attention>, ties = array<i64: -1, -1>} {
    %y, %lse = nn.attention %qkv {heads = #nn.heads<2, kv = 2, scale = 0.5>, mask = #nn.mask<causal>}
        : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
    plan.yield %y, %y : tensor<1x4x8xf32>, tensor<1x4x8xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "fuse" attributes {
    config = "{}", strategy = #dist.strategy<{march = "native"}>, weights = {}} {
  // expected-error @below {{yields a value twice}}
  plan.kernel @k(%x: tensor<1x1x32xf32>, %w: tensor<1x32x32x1xf32>) -> (tensor<1x1x32xf32>, tensor<1x1x32xf32>)
      attributes {generator = #plan.generator<gemm>, ties = array<i64: -1, -1>} {
    %y = nn.packed_linear %x, %w : (tensor<1x1x32xf32>, tensor<1x32x32x1xf32>) -> tensor<1x1x32xf32>
    plan.yield %y, %y : tensor<1x1x32xf32>, tensor<1x1x32xf32>
  }
}
