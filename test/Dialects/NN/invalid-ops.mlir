// RUN: heddle-opt %s --split-input-file --verify-diagnostics

nn.func @f(%t: tensor<8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nn.embedding' op needs a table of rank 2, got 'tensor<8xf32>'}}
  %0 = nn.embedding %t[%i] : (tensor<8xf32>, tensor<3xi32>) -> tensor<3xf32>
  nn.return
}

// -----

nn.func @f(%t: tensor<8x4xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nn.embedding' op output has shape [3, 5], expected [3, 4]}}
  %0 = nn.embedding %t[%i] : (tensor<8x4xf32>, tensor<3xi32>) -> tensor<3x5xf32>
  nn.return
}

// -----

nn.func @f(%t: tensor<8x?xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nn.embedding' op operand #0 must be statically shaped tensor of 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<8x?xf32>'}}
  %0 = nn.embedding %t[%i] : (tensor<8x?xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  nn.return
}

// -----

nn.func @f(%t: tensor<8x4xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{'nn.embedding' op operand #1 must be statically shaped tensor of 32-bit signless integer values, but got 'tensor<3xi64>'}}
  %0 = nn.embedding %t[%i] : (tensor<8x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<3x4xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nn.embedding_grad' op needs an output of rank 2, got 'tensor<4xf32>'}}
  %0 = nn.embedding_grad %g[%i] : (tensor<3x4xf32>, tensor<3xi32>) -> tensor<4xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<3x4xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{'nn.embedding_grad' op grad has shape [3, 4], expected [2, 4]}}
  %0 = nn.embedding_grad %g[%i] : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<8x4xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<3x4xf32>, %i: tensor<3xi32>, %z: tensor<7x4xf32>) {
  // expected-error @+1 {{'nn.embedding_grad' op init has another type than the output}}
  %0 = nn.embedding_grad %g[%i] init %z : (tensor<3x4xf32>, tensor<3xi32>, tensor<7x4xf32>) -> tensor<8x4xf32>
  nn.return
}

// -----

nn.func @f() {
  // expected-error @+1 {{'nn.positions' op output has no features: it is of rank 0}}
  %0 = nn.positions : () -> tensor<i32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'nn.cast' op output has shape [4, 2], expected [2, 4]}}
  %0 = nn.cast %x : (tensor<2x4xf32>) -> tensor<4x2xbf16>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %y: tensor<4x2xf32>) {
  // expected-error @+1 {{'nn.add' op requires the same type for all operands and results}}
  %0 = "nn.add"(%x, %y) : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<4xi32>, %l: index) {
  // expected-error @+1 {{'nn.dropout' op has probability 1.000000e+00; it must be in [0, 1)}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %l {p = 1.0 : f64, site = 0 : i32} : (tensor<2x4xf32>, tensor<4xi32>, index, index) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<4xi32>, %l: index) {
  // expected-error @+1 {{'nn.dropout' op has probability nan; it must be in [0, 1)}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %l {p = 0x7FF8000000000000 : f64, site = 0 : i32} : (tensor<2x4xf32>, tensor<4xi32>, index, index) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<4xi32>, %l: index) {
  // expected-error @+1 {{'nn.dropout' op changes the type of its input}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %l {p = 0.5 : f64, site = 0 : i32} : (tensor<2x4xf32>, tensor<4xi32>, index, index) -> tensor<2x4xbf16>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<3xi32>, %l: index) {
  // expected-error @+1 {{'nn.dropout' op rng has shape [3], expected [4]}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %l {p = 0.5 : f64, site = 0 : i32} : (tensor<2x4xf32>, tensor<3xi32>, index, index) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'nn.linear' op needs a weight of rank 2, got 'tensor<4xf32>'}}
  %0 = nn.linear %x, %w : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{'nn.linear' op input has 4 features, the weight takes 6}}
  %0 = nn.linear %x, %w : (tensor<2x4xf32>, tensor<6x4xf32>) -> tensor<2x6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<f32>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{'nn.linear' op input has 0 features, the weight takes 6}}
  %0 = nn.linear %x, %w : (tensor<f32>, tensor<6x4xf32>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nn.linear' op bias has shape [4], expected [6]}}
  %0 = nn.linear %x, %w bias %b : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<4xf32>) -> tensor<2x6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xf32>, %y: tensor<2x6xf32>) {
  // expected-error @+1 {{'nn.linear' op has a bias and an init}}
  %0 = nn.linear %x, %w bias %b init %y : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>, %y: tensor<2x6xbf16>) {
  // expected-error @+1 {{'nn.linear' op init has another type than the output}}
  %0 = nn.linear %x, %w init %y : (tensor<2x4xf32>, tensor<4x6xf32>, tensor<2x6xbf16>) -> tensor<2x6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error @+1 {{'nn.linear' op output has shape [3, 6], expected [2, 6]}}
  %0 = nn.linear %x, %w {transposed} : (tensor<2x4xf32>, tensor<6x4xf32>) -> tensor<3x6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<f32>, %g: tensor<f32>) {
  // expected-error @+1 {{'nn.linear_grad_weight' op input has no features: it is of rank 0}}
  %0 = nn.linear_grad_weight %x, %g : (tensor<f32>, tensor<f32>) -> tensor<1x1xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %g: tensor<f32>) {
  // expected-error @+1 {{'nn.linear_grad_weight' op grad has no features: it is of rank 0}}
  %0 = nn.linear_grad_weight %x, %g : (tensor<2x4xf32>, tensor<f32>) -> tensor<4x1xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %g: tensor<3x6xf32>) {
  // expected-error @+1 {{'nn.linear_grad_weight' op input and grad differ in their rows}}
  %0 = nn.linear_grad_weight %x, %g : (tensor<2x4xf32>, tensor<3x6xf32>) -> tensor<4x6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %g: tensor<2x6xf32>) {
  // expected-error @+1 {{'nn.linear_grad_weight' op output has shape [4, 6], expected [6, 4]}}
  %0 = nn.linear_grad_weight %x, %g {transposed} : (tensor<2x4xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %g: tensor<2x6xf32>, %z: tensor<6x4xf32>) {
  // expected-error @+1 {{'nn.linear_grad_weight' op init has another type than the output}}
  %0 = nn.linear_grad_weight %x, %g init %z : (tensor<2x4xf32>, tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<4x6xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<f32>) {
  // expected-error @+1 {{'nn.sum_rows' op input has no features: it is of rank 0}}
  %0 = nn.sum_rows %g : (tensor<f32>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%g: tensor<2x6xf32>) {
  // expected-error @+1 {{'nn.sum_rows' op output has shape [2], expected [6]}}
  %0 = nn.sum_rows %g : (tensor<2x6xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<2x6xf32>, %z: tensor<2xf32>) {
  // expected-error @+1 {{'nn.sum_rows' op init has another type than the output}}
  %0 = nn.sum_rows %g init %z : (tensor<2x6xf32>, tensor<2xf32>) -> tensor<6xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<f32>, %w: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op input has no features: it is of rank 0}}
  %0:3 = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<2xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op weight has shape [2], expected [4]}}
  %0:3 = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<2xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op bias has shape [2], expected [4]}}
  %0:3 = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op mean has shape [4], expected [2]}}
  %0:3 = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op rstd has shape [2, 4], expected [2]}}
  %0:3 = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2x4xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nn.layer_norm' op output has shape [4, 2], expected [2, 4]}}
  %0:3 = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%g: tensor<3x4xf32>, %x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %r: tensor<2xf32>) {
  // expected-error @+1 {{'nn.layer_norm_grad_input' op grad has shape [3, 4], expected [2, 4]}}
  %0 = nn.layer_norm_grad_input %g, %x, %w, %m, %r : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<2x4xf32>, %x: tensor<2x4xf32>, %w: tensor<5xf32>, %m: tensor<2xf32>, %r: tensor<2xf32>) {
  // expected-error @+1 {{'nn.layer_norm_grad_input' op weight has shape [5], expected [4]}}
  %0 = nn.layer_norm_grad_input %g, %x, %w, %m, %r : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<5xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<2x4xf32>, %x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %r: tensor<4xf32>) {
  // expected-error @+1 {{'nn.layer_norm_grad_input' op rstd has shape [4], expected [2]}}
  %0 = nn.layer_norm_grad_input %g, %x, %w, %m, %r : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<2x4xf32>, %x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %r: tensor<2xf32>) {
  // expected-error @+1 {{'nn.layer_norm_grad_input' op output has shape [2, 5], expected [2, 4]}}
  %0 = nn.layer_norm_grad_input %g, %x, %w, %m, %r : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x5xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<2x4xf32>, %x: tensor<2x4xf32>, %m: tensor<2xf32>, %z: tensor<5xf32>) {
  // expected-error @+1 {{'nn.layer_norm_grad_weight' op weight_init has shape [5], expected [4]}}
  %0:2 = nn.layer_norm_grad_weight %g, %x, %m, %m weight_init %z : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<5xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  nn.return
}

// -----

nn.func @f(%g: tensor<2x4xf32>, %x: tensor<2x4xf32>, %m: tensor<2xf32>) {
  // expected-error @+1 {{'nn.layer_norm_grad_weight' op bias_grad has shape [2], expected [4]}}
  %0:2 = nn.layer_norm_grad_weight %g, %x, %m, %m : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'nn.rms_norm' op rstd has shape [4], expected [2]}}
  %0:2 = nn.rms_norm %x, %w {eps = 1.0e-6 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
  nn.return
}

// -----

nn.func @f(%g: tensor<2x4xf32>, %x: tensor<2x4xf32>, %w: tensor<2xf32>, %r: tensor<2xf32>) {
  // expected-error @+1 {{'nn.rms_norm_grad_input' op weight has shape [2], expected [4]}}
  %0 = nn.rms_norm_grad_input %g, %x, %w, %r : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<2x4xf32>, %x: tensor<2x4xf32>, %r: tensor<2xf32>) {
  // expected-error @+1 {{'nn.rms_norm_grad_weight' op output has shape [2], expected [4]}}
  %0 = nn.rms_norm_grad_weight %g, %x, %r : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x16xf32>, %p: tensor<1x4xi32>) {
  // expected-error @+1 {{'nn.rotary' op input 'tensor<1x4x16xf32>' is not [B, T, heads * D] with 3 heads}}
  %0 = nn.rotary %x at %p {heads = 3 : i64, dims = 8 : i64, theta = 1.0e4 : f64} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x16xf32>, %p: tensor<1x4xi32>) {
  // expected-error @+1 {{'nn.rotary' op rotates 3 dimensions of a head of 8; an even number of at most all is possible}}
  %0 = nn.rotary %x at %p {heads = 2 : i64, dims = 3 : i64, theta = 1.0e4 : f64} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x16xf32>, %p: tensor<1x4xi32>) {
  // expected-error @+1 {{'nn.rotary' op rotates 10 dimensions of a head of 8; an even number of at most all is possible}}
  %0 = nn.rotary %x at %p {heads = 2 : i64, dims = 10 : i64, theta = 1.0e4 : f64} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x16xf32>, %p: tensor<4xi32>) {
  // expected-error @+1 {{'nn.rotary' op positions has shape [4], expected [1, 4]}}
  %0 = nn.rotary %x at %p {heads = 2 : i64, dims = 8 : i64, theta = 1.0e4 : f64} : (tensor<1x4x16xf32>, tensor<4xi32>) -> tensor<1x4x16xf32>
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{has 3 heads and 2 key/value heads; the first must be a multiple of the second}}
  %0:2 = nn.attention %q {heads = #nn.heads<3, kv = 2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{has 0 heads and 0 key/value heads; the first must be a multiple of the second}}
  %0:2 = nn.attention %q {heads = #nn.heads<0, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{'nn.attention' op output 'tensor<4x8xf32>' is not [B, T, heads * D] with 2 heads}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{'nn.attention' op output 'tensor<1x4x7xf32>' is not [B, T, heads * D] with 2 heads}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x7xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{'nn.attention' op takes q, k, v as one operand or three, got 2}}
  %0:2 = nn.attention %q, %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>, tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x20xf32>) {
  // expected-error @+1 {{'nn.attention' op operand has shape [1, 4, 20], expected [1, 4, 24]}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x20xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{'nn.attention' op lse has shape [1, 4, 2], expected [1, 2, 4]}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x4x2xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{'nn.attention' op needs all of rng, layer, micro_batch and dropout or none}}
  %0:2 = nn.attention %q {dropout = #nn.dropout<0.5, site = 0>, heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{has probability -5.000000e-01; it must be in [0, 1)}}
  %0:2 = nn.attention %q {dropout = #nn.dropout<-0.5, site = 0>, heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>, %n: tensor<2xi32>) {
  // expected-error @+1 {{'nn.attention' op lengths has shape [2], expected [1]}}
  %0:2 = nn.attention %q lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>, tensor<2xi32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{cuts heads into 0 parts and the sequence into 1; the least is 1}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>, placement = #nn.placement<parts = 0>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%g: tensor<1x4x8xf32>, %q: tensor<1x4x24xf32>, %l: tensor<1x2x4xf32>) {
  // expected-error @+1 {{'nn.attention_grad' op gives 'tensor<1x4x8xf32>', one for each of 'tensor<1x4x24xf32>' is expected}}
  %0 = nn.attention_grad %g, %q forward %g lse %l {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x8xf32>, tensor<1x4x24xf32>, tensor<1x4x8xf32>, tensor<1x2x4xf32>) -> tensor<1x4x8xf32>
  nn.return
}

// -----

nn.func @f(%g: tensor<1x4x8xf32>, %q: tensor<1x4x24xf32>, %l: tensor<1x2x4xf32>, %h: tensor<1x4x8xbf16>) {
  // expected-error @+1 {{'nn.attention_grad' op grad and forward differ in type}}
  %0 = nn.attention_grad %h, %q forward %g lse %l {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x8xbf16>, tensor<1x4x24xf32>, tensor<1x4x8xf32>, tensor<1x2x4xf32>) -> tensor<1x4x24xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<f32>, %y: tensor<i32>) {
  // expected-error @+1 {{'nn.cross_entropy' op logits has no features: it is of rank 0}}
  %0:2 = nn.cross_entropy %x, %y : (tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<f32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %y: tensor<3xi32>) {
  // expected-error @+1 {{'nn.cross_entropy' op labels has shape [3], expected [2]}}
  %0:2 = nn.cross_entropy %x, %y : (tensor<2x8xf32>, tensor<3xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %y: tensor<2xi32>) {
  // expected-error @+1 {{'nn.cross_entropy' op losses has shape [], expected [2]}}
  %0:2 = nn.cross_entropy %x, %y : (tensor<2x8xf32>, tensor<2xi32>) -> (tensor<f32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %y: tensor<2xi32>) {
  // expected-error @+1 {{'nn.cross_entropy' op lse has shape [8], expected [2]}}
  %0:2 = nn.cross_entropy %x, %y : (tensor<2x8xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<8xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %y: tensor<2xi32>, %l: tensor<8xf32>) {
  // expected-error @+1 {{'nn.cross_entropy_grad' op lse has shape [8], expected [2]}}
  %0 = nn.cross_entropy_grad %x, %y, %l, %l : (tensor<2x8xf32>, tensor<2xi32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %y: tensor<2xi32>, %l: tensor<2xf32>) {
  // expected-error @+1 {{'nn.cross_entropy_grad' op output has shape [2, 7], expected [2, 8]}}
  %0 = nn.cross_entropy_grad %x, %y, %l, %l : (tensor<2x8xf32>, tensor<2xi32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x7xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{'nn.sum' op output has shape [1], expected []}}
  %0 = nn.sum %x : (tensor<2x8xf32>) -> tensor<1xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %z: tensor<1xf32>) {
  // expected-error @+1 {{'nn.sum' op init has another type than the output}}
  %0 = nn.sum %x init %z : (tensor<2x8xf32>, tensor<1xf32>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %o: tensor<2x8xi32>) {
  // expected-error @+1 {{'nn.reorder' op needs an order of rank 1, got 'tensor<2x8xi32>'}}
  %0 = nn.reorder %x by %o : (tensor<2x8xf32>, tensor<2x8xi32>) -> tensor<2x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<f32>, %o: tensor<8xi32>) {
  // expected-error @+1 {{'nn.reorder' op needs an input with features}}
  %0 = nn.reorder %x by %o : (tensor<f32>, tensor<8xi32>) -> tensor<8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %o: tensor<4xi32>) {
  // expected-error @+1 {{'nn.reorder' op output has shape [2, 8], expected [2, 4]}}
  %0 = nn.reorder %x by %o : (tensor<2x8xf32>, tensor<4xi32>) -> tensor<2x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %p: tensor<i32>) {
  // expected-error @+1 {{'nn.take_row' op needs an input of rank 3, got 'tensor<2x8xf32>'}}
  %0 = nn.take_row %x[%p] : (tensor<2x8xf32>, tensor<i32>) -> tensor<1x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x3x8xf32>, %p: tensor<2xi32>) {
  // expected-error @+1 {{'nn.take_row' op position has shape [2], expected []}}
  %0 = nn.take_row %x[%p] : (tensor<2x3x8xf32>, tensor<2xi32>) -> tensor<2x1x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x3x8xf32>, %p: tensor<i32>) {
  // expected-error @+1 {{'nn.take_row' op output has shape [2, 8], expected [2, 1, 8]}}
  %0 = nn.take_row %x[%p] : (tensor<2x3x8xf32>, tensor<i32>) -> tensor<2x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<65537xf32>) {
  // expected-error @+1 {{'nn.square_sums' op output has shape [1], expected [2]}}
  %0 = nn.square_sums %x : (tensor<65537xf32>) -> tensor<1xf32>
  nn.return
}

// -----

nn.func @f() {
  // expected-error @+1 {{'nn.global_norm' op has no inputs}}
  %0 = "nn.global_norm"() : () -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{'nn.global_norm' op output has shape [2], expected []}}
  %0 = nn.global_norm %x : (tensor<2x8xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<64xf32>, %g: tensor<32xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.update' op has a gradient of type 'tensor<32xf32>', the parameter has 'tensor<64xf32>'}}
  %0:3 = nn.update "adamw" %p, %g states(%p, %p) with(%s, %s, %s) : (tensor<64xf32>, tensor<32xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<64xf32>, %g: tensor<32xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.update' op has a result of type 'tensor<32xbf16>', the parameter has 'tensor<64xf32>'}}
  %0:4 = nn.update "adamw" %p, %p states(%p, %p) with(%s, %s, %s) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<32xbf16>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<64xf32>, %g: tensor<32xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.update' op has an input that is no number of type 'tensor<32xf32>', the parameter has 'tensor<64xf32>'}}
  %0:3 = nn.update "adamw" %p, %p states(%p, %p) with(%g, %s, %s) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<32xf32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) { ^bb0(%a_: f64, %b_: f64, %c_: f64, %d_: f64, %e_: f64, %f_: f64, %g_: f64): nn.return %a_, %c_, %d_ : f64, f64, f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<64xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.update' op has a condition of type 'tensor<64xf32>', which is no number}}
  %0 = nn.update "none" %p, %p if %p : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<64xf32>) {
  // expected-error @+1 {{'nn.update' op has 3 results; 1 are the new parameter and states, and one more may be the copy}}
  %0:3 = nn.update "none" %p, %p : (tensor<64xf32>, tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<64xf32>) {
  // expected-error @+1 {{'nn.update' op result #0 must be f32, as parameters and states are, got 'tensor<64xbf16>'}}
  %0 = nn.update "none" %p, %p : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xbf16> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<64xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.update' op has a body of 'f64', 'f64' for 3 operands; it needs one f64 for each}}
  %0 = nn.update "none" %p, %p with(%s) : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<64xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.average' op is joint, and its wire format has no scales}}
  %0 = nn.average %p, %p if %c wire "f32" {joint} : (tensor<128xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.average' op has the unknown wire format "sign2"}}
  %0 = nn.average %p, %p if %c wire "sign2" : (tensor<128xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.average' op names no bucket}}
  %0 = nn.average %p, %p if %c wire "sign1" : (tensor<128xf32>, tensor<128xf32>, tensor<f32>) -> tensor<128xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %q: tensor<64xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.average' op gives 'tensor<128xf32>' for 'tensor<128xf32>' and 'tensor<64xf32>'}}
  %0 = nn.average %p, %q if %c wire "f32" : (tensor<128xf32>, tensor<64xf32>, tensor<f32>) -> tensor<128xf32> { ^bb0(%a_: f64, %b_: f64): nn.return %a_ : f64 }
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.sign_scales' op has no tensor}}
  %0 = nn.sign_scales %p if %c parts 2 {counts = array<i64>} : (tensor<128xf32>, tensor<f32>) -> tensor<1x1xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<0xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.sign_scales' op has no rows, or no tensor}}
  %0 = nn.sign_scales %p if %c parts 2 {counts = array<i64: 5>} : (tensor<0xf32>, tensor<f32>) -> tensor<0x1xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.sign_scales' op needs a bucket, or the counts of elements}}
  %0 = nn.sign_scales %p if %c parts 2 : (tensor<128xf32>, tensor<f32>) -> tensor<1x1xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.sign_scales' op has 1 rows of 192 elements, and takes 'tensor<128xf32>'}}
  %0 = nn.sign_scales %p if %c parts 2 {counts = array<i64: 129>} : (tensor<128xf32>, tensor<f32>) -> tensor<1x1xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.sign_scales' op has 9223372036854775807 parts; it needs 1 to 1048576}}
  %0 = nn.sign_scales %p if %c parts 9223372036854775807 {counts = array<i64: 100>} : (tensor<128xf32>, tensor<f32>) -> tensor<1x1xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %c: tensor<f32>) {
  // expected-error @+1 {{'nn.sign_scales' op has more than 4398046511104 elements}}
  %0 = nn.sign_scales %p if %c parts 2 {counts = array<i64: 100, 9223372036854775807>} : (tensor<128xf32>, tensor<f32>) -> tensor<1x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %a: tensor<1x1xf32>) {
  // expected-error @+1 {{words}}
  %0:2 = nn.pack_signs %p scales %a parts 2 {counts = array<i64: 128>} : (tensor<128xf32>, tensor<1x1xf32>) -> (tensor<1x2x4xi32>, tensor<128xf32>)
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.segment_sums' op needs a bucket, or the sizes of segments}}
  %0 = nn.segment_sums %p : (tensor<128xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.segment_sums' op has a segment of 63 elements, which is no multiple of 64}}
  %0 = nn.segment_sums %p {segments = array<i64: 63>} : (tensor<128xf32>) -> tensor<1xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.segment_sums' op has segments of 192 elements in 'tensor<128xf32>'}}
  %0 = nn.segment_sums %p {segments = array<i64: 64, 128>} : (tensor<128xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.segment_sums' op has 1 segments, and numbers of type 'tensor<2xf32>' for them}}
  %0 = nn.segment_sums %p {segments = array<i64: 128>} : (tensor<128xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.group_maxima' op needs a bucket, or the shapes of tensors}}
  %0 = nn.group_maxima %p : (tensor<128xf32>) -> tensor<1x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.group_maxima' op does not have seven numbers for each tensor}}
  %0 = nn.group_maxima %p {tensors = array<i64: 4, 4, 1>} : (tensor<128xf32>) -> tensor<1x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.group_maxima' op has 3 groups in 16 elements, which they do not divide}}
  %0 = nn.group_maxima %p {tensors = array<i64: 4, 4, 3, 0, 4, 4, 0>} : (tensor<128xf32>) -> tensor<1x6xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.group_maxima' op has tensors of 192 elements in 'tensor<128xf32>'}}
  %0 = nn.group_maxima %p {tensors = array<i64: 4, 4, 1, 0, 4, 4, 0, 10, 10, 1, 0, 10, 10, 0>} : (tensor<128xf32>) -> tensor<1x4xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.group_maxima' op has a tensor that ranks split, but no part}}
  %0 = nn.group_maxima %p {tensors = array<i64: 4, 4, 1, 0, 8, 4, 1>} : (tensor<128xf32>) -> tensor<1x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.group_maxima' op has a tensor of no shape}}
  %0 = nn.group_maxima %p {tensors = array<i64: 4, 4, 1, 0, 8, 4, 0>} : (tensor<128xf32>) -> tensor<1x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.group_maxima' op has ranges that do not divide 'tensor<128xf32>' at multiples of 64 elements}}
  %0 = nn.group_maxima %p {tensors = array<i64: 4, 4, 1, 0, 4, 4, 0>} : (tensor<128xf32>) -> tensor<3x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %m: tensor<2xf32>, %b: tensor<f32>) {
  // expected-error @+1 {{'nn.fake_quantize' op gives 'tensor<64xbf16>' for 'tensor<128xf32>'}}
  %0 = nn.fake_quantize %p by %m bits %b ratio %b {tensors = array<i64: 4, 4, 1, 0, 4, 4, 0>} : (tensor<128xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>) -> tensor<64xbf16>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.segment_maxima' op needs a bucket, or the counts of elements}}
  %0 = nn.segment_maxima %p : (tensor<128xf32>) -> tensor<1x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.segment_maxima' op has 3 ranges, which do not divide 'tensor<128xf32>' at multiples of 64 elements}}
  %0 = nn.segment_maxima %p {counts = array<i64: 64>} : (tensor<128xf32>) -> tensor<3x1xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.segment_maxima' op has segments of 192 elements in 'tensor<128xf32>'}}
  %0 = nn.segment_maxima %p {counts = array<i64: 5, 65>} : (tensor<128xf32>) -> tensor<1x2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<2x3xf32>) {
  // expected-error @+1 {{'nn.max_rows' op output has shape [2], expected [3]}}
  %0 = nn.max_rows %p : (tensor<2x3xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>) {
  // expected-error @+1 {{'nn.read_numbers' op has numbers of type 'tensor<3xf32>' in a bucket of type 'tensor<128xf32>'}}
  %0 = nn.read_numbers %p : (tensor<128xf32>) -> tensor<3xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<128xf32>, %n: tensor<2xf32>) {
  // expected-error @+1 {{'nn.write_numbers' op condition has shape [2], expected []}}
  %0 = nn.write_numbers %n to %p if %n : (tensor<2xf32>, tensor<128xf32>, tensor<2xf32>) -> tensor<128xf32>
  nn.return
}

// -----

nn.func @f(%a: tensor<2x1xf32>) {
  // expected-error @+1 {{'nn.join_scales' op scales has shape [2, 1], expected [2, 2]}}
  %0:2 = nn.join_scales %a parts 2 {counts = array<i64: 5, 65>} : (tensor<2x1xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>)
  nn.return
}

// -----

nn.func @f(%w: tensor<1x1x2xi32>, %a: tensor<1x1xf32>, %p: tensor<64xf32>, %c: tensor<f32>, %f: tensor<2xf32>) {
  // expected-error @+1 {{'nn.unpack_signs' op factors has shape [2], expected [1]}}
  %0 = nn.unpack_signs %w scales %a times %f else %p if %c parts 1 {counts = array<i64: 5>} : (tensor<1x1x2xi32>, tensor<1x1xf32>, tensor<64xf32>, tensor<f32>, tensor<2xf32>) -> tensor<64xf32>
  nn.return
}

// -----

nn.func @f(%p: tensor<2xf64>) {
  // expected-error @+1 {{'nn.advance_power' op power has shape [2], expected []}}
  %0:2 = nn.advance_power %p by 0.9 : (tensor<2xf64>) -> (tensor<f64>, tensor<f32>)
  nn.return
}

// -----

nn.func @f(%c: tensor<2xf64>) {
  // expected-error @+1 {{'nn.count_update' op count has shape [2], expected []}}
  %0 = nn.count_update %c : (tensor<2xf64>) -> tensor<f64>
  nn.return
}

// -----

nn.func @f(%r: tensor<f32>, %c: tensor<f64>) {
  // expected-error @+1 {{'nn.take_rate' op needs a list of rates, got 'tensor<f32>'}}
  %0 = nn.take_rate %r[%c] : (tensor<f32>, tensor<f64>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%r: tensor<2xf32>, %c: tensor<1xf64>) {
  // expected-error @+1 {{'nn.take_rate' op count has shape [1], expected []}}
  %0 = nn.take_rate %r[%c] : (tensor<2xf32>, tensor<1xf64>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%s: tensor<f32>, %n: tensor<1xf32>) {
  // expected-error @+1 {{'nn.advance_loss_scale' op has an operand or a result that is no number}}
  %0:5 = nn.advance_loss_scale %s, %s, %s, %s of(%n) {window = 2 : i64, hysteresis = 2 : i64, least = 1.0}
      : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<1xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  nn.return
}

// -----

nn.func @f(%s: tensor<f32>) {
  // expected-error @+1 {{'nn.advance_loss_scale' op has a negative window, or a hysteresis below 1}}
  %0:5 = nn.advance_loss_scale %s, %s, %s, %s {window = 2 : i64, hysteresis = 0 : i64, least = 1.0}
      : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  nn.return
}

// -----

nn.func @f(%s: tensor<f32>) {
  // expected-error @+1 {{'nn.advance_loss_scale' op has the least scale 0.000000e+00, which must be positive}}
  %0:5 = nn.advance_loss_scale %s, %s, %s, %s {window = 2 : i64, hysteresis = 1 : i64, least = 0.0}
      : (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<4xi32>, %l: index, %m: index, %part: index) {
  // expected-error @+1 {{'nn.dropout' op needs all of part, parts and inner or none}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %m part %part {p = 0.5, site = 1 : i32, parts = array<i64: 2>} : (tensor<2x4xf32>, tensor<4xi32>, index, index, index) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<4xi32>, %l: index, %m: index, %part: index) {
  // expected-error @+1 {{'nn.dropout' op is one of 0 parts}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %m part %part {p = 0.5, site = 1 : i32, parts = array<i64: 0>, inner = array<i64: 4>} : (tensor<2x4xf32>, tensor<4xi32>, index, index, index) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<4xi32>, %l: index, %m: index, %part: index) {
  // expected-error @+1 {{'nn.dropout' op has an inner size of 2 elements, which no last dimensions have in 'tensor<2x4xf32>'}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %m part %part {p = 0.5, site = 1 : i32, parts = array<i64: 2>, inner = array<i64: 2>} : (tensor<2x4xf32>, tensor<4xi32>, index, index, index) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %r: tensor<4xi32>, %l: index, %m: index, %part: index) {
  // expected-error @+1 {{'nn.dropout' op has an inner size of 8 elements, which no last dimensions have in 'tensor<2x4xf32>'}}
  %0 = nn.dropout %x rng %r layer %l micro_batch %m part %part, %part {p = 0.5, site = 1 : i32, parts = array<i64: 2, 2>, inner = array<i64: 8, 8>} : (tensor<2x4xf32>, tensor<4xi32>, index, index, index, index) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'nn.slice' op takes 'tensor<2x3xf32>' from element 2 of dimension 1 of 'tensor<2x4xf32>'}}
  %0 = nn.slice %x dim 1 {offset = 2} : (tensor<2x4xf32>) -> tensor<2x3xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'nn.slice' op takes 'tensor<1x4xf32>' from element 0 of dimension 1 of 'tensor<2x4xf32>'}}
  %0 = nn.slice %x dim 1 : (tensor<2x4xf32>) -> tensor<1x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>) {
  // expected-error @+1 {{'nn.concat' op puts 'tensor<2x4xf32>', 'tensor<2x3xf32>' side by side along dimension 1 and gets 'tensor<2x8xf32>'}}
  %0 = nn.concat %x, %y dim 1 : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x24xf32>, %i: index) {
  // expected-error @+1 {{'nn.attention' op needs all of sequence_shard, ring_step and sequence_shards above 1 or none}}
  %0:2 = nn.attention %x sequence_shard %i ring_step %i {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>, index, index) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x8xf32>, %s: tensor<1x2x3xf32>) {
  // expected-error @+1 {{'nn.attention_join' op lse 'tensor<1x2x3xf32>' does not fit an output 'tensor<1x4x8xf32>' by heads}}
  %0 = nn.attention_join %x, %s, %x, %s : (tensor<1x4x8xf32>, tensor<1x2x3xf32>, tensor<1x4x8xf32>, tensor<1x2x3xf32>) -> tensor<1x4x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x8xf32>, %y: tensor<1x4x6xf32>, %s: tensor<1x2x4xf32>) {
  // expected-error @+1 {{'nn.attention_join' op joins 'tensor<1x4x6xf32>' into 'tensor<1x4x8xf32>'}}
  %0 = nn.attention_join %x, %s, %y, %s : (tensor<1x4x8xf32>, tensor<1x2x4xf32>, tensor<1x4x6xf32>, tensor<1x2x4xf32>) -> tensor<1x4x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x24xf32>) {
  // expected-error @+1 {{'nn.attention' op needs all of part and parts above 1 or none}}
  %0:2 = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>, placement = #nn.placement<parts = 2>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'nn.add_bias' op bias has shape [3], expected [4]}}
  %0 = nn.add_bias %x, %b : (tensor<2x4xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nn.add_bias' op output has shape [2, 3], expected [2, 4]}}
  %0 = nn.add_bias %x, %b : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %l: tensor<i32>, %first: index) {
  // expected-error @+1 {{'nn.cross_entropy_part' op needs logits of rank 2 or more, got 'tensor<4xf32>'}}
  %0:2 = nn.cross_entropy_part %x, %l first %first {vocab = 8} : (tensor<4xf32>, tensor<i32>, index) -> (tensor<f32>, tensor<f32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<3x4xf32>, %l: tensor<3xi32>, %first: index) {
  // expected-error @+1 {{'nn.cross_entropy_part' op has a vocabulary of 0}}
  %0:2 = nn.cross_entropy_part %x, %l first %first {vocab = 0} : (tensor<3x4xf32>, tensor<3xi32>, index) -> (tensor<3xf32>, tensor<3xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<3x4xf32>, %l: tensor<3xi32>, %first: index) {
  // expected-error @+1 {{'nn.cross_entropy_part' op has a vocabulary of -1}}
  %0:2 = nn.cross_entropy_part %x, %l first %first {vocab = 18446744073709551615 : i64} : (tensor<3x4xf32>, tensor<3xi32>, index) -> (tensor<3xf32>, tensor<3xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<3x4xf32>, %l: tensor<3xi32>, %first: index) {
  // expected-error @+1 {{'nn.cross_entropy_part' op label_logit has shape [2], expected [3]}}
  %0:2 = nn.cross_entropy_part %x, %l first %first {vocab = 8} : (tensor<3x4xf32>, tensor<3xi32>, index) -> (tensor<3xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<5x2xf32>, %y: tensor<3x2xf32>, %l: tensor<3x2xi32>) {
  // expected-error @+1 {{'nn.cross_entropy_join' op lses 'tensor<5x2xf32>' are not those of parts of 'tensor<3x2xi32>'}}
  %0:2 = nn.cross_entropy_join %x, %y, %l : (tensor<5x2xf32>, tensor<3x2xf32>, tensor<3x2xi32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<6x2xf32>, %y: tensor<3x1xf32>, %l: tensor<3x2xi32>) {
  // expected-error @+1 {{'nn.cross_entropy_join' op label_logit has shape [3, 1], expected [3, 2]}}
  %0:2 = nn.cross_entropy_join %x, %y, %l : (tensor<6x2xf32>, tensor<3x1xf32>, tensor<3x2xi32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<3x4xf32>, %l: tensor<3xi32>, %s: tensor<3xf32>, %first: index) {
  // expected-error @+1 {{'nn.cross_entropy_grad' op needs all of first and vocab or none}}
  %0 = nn.cross_entropy_grad %x, %l, %s, %s first %first : (tensor<3x4xf32>, tensor<3xi32>, tensor<3xf32>, tensor<3xf32>, index) -> tensor<3x4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %y: tensor<2xi32>, %l: tensor<2xf32>, %d: tensor<8xf32>) {
  // expected-error @+1 {{'nn.cross_entropy_grad' op grad has shape [8], expected [2]}}
  %0 = nn.cross_entropy_grad %x, %y, %l, %d : (tensor<2x8xf32>, tensor<2xi32>, tensor<2xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<2x8xf32>, %w: tensor<2xf32>) {
  // expected-error @+1 {{'nn.sum' op weights has shape [2], expected [2, 8]}}
  %0 = nn.sum %x weights %w : (tensor<2x8xf32>, tensor<2xf32>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%l: tensor<2xi32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{'nn.count_labels' op weights has shape [3], expected [2]}}
  %0 = nn.count_labels %l weights %w : (tensor<2xi32>, tensor<3xf32>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%c: tensor<1xf32>) {
  // expected-error @+1 {{'nn.loss_scale' op count has shape [1], expected []}}
  %0 = nn.loss_scale %c : (tensor<1xf32>) -> tensor<f32>
  nn.return
}

// -----

nn.func @f(%l: tensor<2xi32>, %s: tensor<1xf32>) {
  // expected-error @+1 {{'nn.token_weights' op scale has shape [1], expected []}}
  %0 = nn.token_weights %l scale %s : (tensor<2xi32>, tensor<1xf32>) -> tensor<2xf32>
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{has scale 1.000000e+31; its magnitude is at most 1.000000e+30}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 1.0e+31>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>) {
  %0 = nn.map (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'arith.constant' op is no finite number in f32}}
    %1 = arith.constant 1.0e+39 : f64
    %2 = arith.mulf %a, %1 : f64
    nn.return %2 : f64
  }
  nn.return
}

// -----

nn.func @f(%x: tensor<2x5xf32>, %l: tensor<2xi32>) {
  // expected-error @+1 {{'nn.cross_entropy' op has smoothing 1.000000e+00; it must be in [0, 1)}}
  %0:2 = nn.cross_entropy %x, %l {smoothing = 1.0 : f64} : (tensor<2x5xf32>, tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{has softcap -1.000000e+00; it is from 0 to 1.000000e+30}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5, softcap = -1.0>, mask = #nn.mask<full>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x16x4xf32>, %v: tensor<3x2x16x4xf32>, %x: tensor<1x5x24xf32>, %p: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.cache_write' op keys must be 'tensor<3x2x4x16xf32>', not 'tensor<3x2x16x4xf32>'}}
  %k1, %v1 = nn.cache_write %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<3x2x16x4xf32>, tensor<3x2x16x4xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x16x4xf32>, tensor<3x2x16x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{has a window of -2 keys; it is 1 or more, or absent}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal, window = -2>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x16xbf16>, %v: tensor<3x2x16x4xf32>, %x: tensor<1x5x24xf32>, %p: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.cache_write' op keys and values differ in type}}
  %k1, %v1 = nn.cache_write %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<3x2x4x16xbf16>, tensor<3x2x16x4xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xbf16>, tensor<3x2x16x4xf32>)
  nn.return
}

// -----

nn.func @f(%q: tensor<1x4x24xf32>) {
  // expected-error @+1 {{has a window, which ends at the query's own position: its kind must be causal}}
  %0:2 = nn.attention %q {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full, window = 2>} : (tensor<1x4x24xf32>) -> (tensor<1x4x8xf32>, tensor<1x2x4xf32>)
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x16xf32>, %v: tensor<3x2x16x4xf32>, %x: tensor<1x5x16xf32>, %p: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.cache_write' op operand must be 'tensor<1x5x24xf32>', not 'tensor<1x5x16xf32>'}}
  %k1, %v1 = nn.cache_write %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x5x16xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
  nn.return
}

// -----

nn.func @f(%x: tensor<1x4x24xf32>) {
  // expected-error @+1 {{makes 'tensor<1x4x5x5xf32>' of 'tensor<1x4x24xf32>'; the last dimension becomes two, or the last two one}}
  %0 = nn.reshape %x : (tensor<1x4x24xf32>) -> tensor<1x4x5x5xf32>
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x16xf32>, %v: tensor<3x2x16x4xf32>, %x: tensor<1x5x24xf32>, %p: tensor<2x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.cache_write' op pages 'tensor<2x2xi32>' are not [R, M] with 1 rows}}
  %k1, %v1 = nn.cache_write %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x5x24xf32>, tensor<2x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x16xi8>, %v: tensor<3x2x16x4xi8>, %x: tensor<1x5x24xf32>, %p: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.cache_write' op codes need scales}}
  %k1, %v1 = nn.cache_write %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>} : (tensor<3x2x4x16xi8>, tensor<3x2x16x4xi8>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xi8>, tensor<3x2x16x4xi8>)
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x16xf32>, %v: tensor<3x2x16x4xf32>, %s: tensor<3x2x2x16xf32>, %x: tensor<1x5x24xf32>, %p: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.paged_attention' op scales belong to codes alone}}
  %y = nn.paged_attention %k, %v scales %s of %x pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x2x2x16xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> tensor<1x5x8xf32>
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x16xi8>, %v: tensor<3x2x16x4xi8>, %s: tensor<3x2x16xf32>, %x: tensor<1x5x24xf32>, %p: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.paged_attention' op scales must be 'tensor<3x2x2x16xf32>', not 'tensor<3x2x16xf32>'}}
  %y = nn.paged_attention %k, %v scales %s of %x pages %p at %at lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xi8>, tensor<3x2x16x4xi8>, tensor<3x2x16xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>) -> tensor<1x5x8xf32>
  nn.return
}

// -----

nn.func @f(%k: tensor<20x1x4x16xf32>, %v: tensor<20x1x16x4xf32>, %x: tensor<1x1x24xf32>, %p: tensor<1x17xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.paged_attention' op has parts of type 'tensor<1x1x2x4x6xf32>', not 'tensor<1x1x1x4x6xf32>'}}
  %y = nn.paged_attention %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<4, kv = 1, scale = 0.5>, mask = #nn.mask<causal>, in_parts} : (tensor<20x1x4x16xf32>, tensor<20x1x16x4xf32>, tensor<1x1x24xf32>, tensor<1x17xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x1x4x6xf32>
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x16xf32>, %v: tensor<3x2x16x4xf32>, %x: tensor<1x5x24xf32>, %p: tensor<1x3xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>, %l: tensor<2x1x1xi32>) {
  // expected-error @+1 {{'nn.paged_attention' op has a layout of 32 positions, and a page table of 48}}
  %y = nn.paged_attention %k, %v of %x pages %p at %at lengths %n layout %l {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal, block = 32, density = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x5x24xf32>, tensor<1x3xi32>, tensor<1x5xi32>, tensor<1xi32>, tensor<2x1x1xi32>) -> tensor<1x5x8xf32>
  nn.return
}

// -----

nn.func @f(%k: tensor<3x2x4x12xf32>, %v: tensor<3x2x12x4xf32>, %x: tensor<1x5x24xf32>, %p: tensor<1x2xi32>, %at: tensor<1x5xi32>, %n: tensor<1xi32>, %l: tensor<1x2x1xi32>) {
  // expected-error @+1 {{'nn.paged_attention' op has a layout, and pages of 12 positions, which do not divide parts of 256}}
  %y = nn.paged_attention %k, %v of %x pages %p at %at lengths %n layout %l {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal, block = 16, density = 0.5>} : (tensor<3x2x4x12xf32>, tensor<3x2x12x4xf32>, tensor<1x5x24xf32>, tensor<1x2xi32>, tensor<1x5xi32>, tensor<1xi32>, tensor<1x2x1xi32>) -> tensor<1x5x8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x1x2x4x6xf32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.paged_attention_join' op output must be 'tensor<1x1x16xf32>', not 'tensor<1x1x24xf32>'}}
  %y = nn.paged_attention_join %x at %at lengths %n {mask = #nn.mask<causal>, part_tokens = 256 : i64} : (tensor<1x1x2x4x6xf32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x24xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x1x2x4x6xf32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.paged_attention_join' op has parts of 0 positions}}
  %y = nn.paged_attention_join %x at %at lengths %n {mask = #nn.mask<causal>, part_tokens = 0 : i64} : (tensor<1x1x2x4x6xf32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<1x2x4x6xf32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) {
  // expected-error @+1 {{'nn.paged_attention_join' op parts 'tensor<1x2x4x6xf32>' are not [R, T, parts, heads, D + 2]}}
  %y = nn.paged_attention_join %x at %at lengths %n {mask = #nn.mask<causal>, part_tokens = 256 : i64} : (tensor<1x2x4x6xf32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
  nn.return
}
