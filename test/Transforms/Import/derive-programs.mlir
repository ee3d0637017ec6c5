// RUN: heddle-opt %s --import-derive-programs --split-input-file --verify-diagnostics | FileCheck %s

// Rows and tokens are those of the strategy; dropout is in training alone, and
// its operands with it; what --keep names is kept in training alone; generation
// has one row, whose last token alone reaches the head.

// CHECK-LABEL: nn.model @small
// CHECK: nn.func @forward(%[[IDS:.*]]: tensor<6x4xi32>, %[[LABELS:.*]]: tensor<6x4xi32>, %[[RNG:.*]]: tensor<4xi32>, %[[MB:.*]]: index) -> (tensor<6x4xf32>, tensor<6x4x9xf32>)
// CHECK-SAME: inputs = [#nn.port<ids>, #nn.port<labels>, #nn.port<rng>, #nn.port<micro_batch>]
// CHECK-SAME: outputs = [#nn.port<losses>, #nn.port<logits>], program = #nn.program<train>
// CHECK: nn.positions : () -> tensor<6x4xi32>
// CHECK-NOT: nn.keep {{.*}} "sum"
// CHECK: nn.call @block(%{{.*}}, %[[RNG]], %{{.*}}, %[[MB]]) path "h.0" : (tensor<6x4x8xf32>, tensor<4xi32>, index, index) -> tensor<6x4x8xf32>
// CHECK: %[[Y:.*]]:2 = nn.call @block.keep2({{.*}}) path "h.1"
// CHECK-NEXT: nn.keep %[[Y]]#1 as "h.1.act" : tensor<6x4x8xf32>
// CHECK-NEXT: nn.keep %[[Y]]#0 as "h.1"
// CHECK: %[[LOGITS:.*]] = nn.linear
// CHECK: nn.cross_entropy %[[LOGITS]], %[[LABELS]]
// CHECK: nn.func @block(%{{.*}}: tensor<6x4x8xf32>, %{{.*}}: tensor<4xi32>, %{{.*}}: index, %{{.*}}: index)
// CHECK: nn.attention {{.*}} -> (tensor<6x4x8xf32>, tensor<6x2x4xf32>)
// CHECK: nn.func @block.keep2({{.*}}) -> (tensor<6x4x8xf32>, tensor<6x4x8xf32>)
// CHECK: nn.func @evaluate(%{{.*}}: tensor<6x4xi32>, %{{.*}}: tensor<6x4xi32>) -> tensor<6x4xf32>
// CHECK-NOT: nn.keep
// CHECK: nn.call @block.eval(%{{[0-9]+}}) path "h.0" : (tensor<6x4x8xf32>) -> tensor<6x4x8xf32>
// CHECK: nn.func @block.eval(%{{.*}}: tensor<6x4x8xf32>)
// CHECK-NOT: nn.dropout
// CHECK: nn.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {heads = #nn.heads<2, scale = 5.000000e-01>, mask = #nn.mask<causal>}
// CHECK: nn.func @generate(%{{.*}}: tensor<1x4xi32>, %[[AT:.*]]: tensor<i32>) -> tensor<1x1x9xf32>
// CHECK: %[[Z:.*]] = nn.call @block.generate(%{{.*}}) path "h.1"
// CHECK-NEXT: %[[ROW:.*]] = nn.take_row %[[Z]][%[[AT]]] : {{.*}} -> tensor<1x1x8xf32>
// CHECK: nn.rms_norm %[[ROW]]
// CHECK: nn.func @block.generate(
nn.model @small family "small" phase "import" attributes {
    strategy = #dist.strategy<{batch = {global = 6, micro = 3, seq = 4}, keep = ["logits", "h.1", "small.h.1.act"], mesh = {data = 2}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  nn.state @p role parameter : tensor<16x8xf32>
  nn.state @n role parameter : tensor<8xf32>
  nn.func @block(%x: tensor<1x16x8xf32>, %rng: tensor<4xi32>, %layer: index, %mb: index) -> tensor<1x16x8xf32> {
    %a, %lse = nn.attention %x, %x, %x rng %rng layer %layer micro_batch %mb {dropout = #nn.dropout<0.1, site = 3>, heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x16x8xf32>, tensor<1x16x8xf32>, tensor<1x16x8xf32>, tensor<4xi32>, index, index) -> (tensor<1x16x8xf32>, tensor<1x2x16xf32>)
    %g = nn.map silu(%a) : tensor<1x16x8xf32>
    nn.keep %g as "act" : tensor<1x16x8xf32>
    %d = nn.dropout %g rng %rng layer %layer micro_batch %mb {p = 0.1 : f64, site = 4 : i32} : (tensor<1x16x8xf32>, tensor<4xi32>, index, index) -> tensor<1x16x8xf32>
    nn.return %d : tensor<1x16x8xf32>
  }
  nn.func @model(%ids: tensor<1x16xi32>, %rng: tensor<4xi32>, %mb: index) -> tensor<1x16x9xf32>
      attributes {inputs = [#nn.port<ids>, #nn.port<rng>, #nn.port<micro_batch>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x16xi32>) -> tensor<1x16x8xf32>
    %at = nn.positions : () -> tensor<1x16xi32>
    %p = nn.get @p : tensor<16x8xf32>
    %q = nn.embedding %p[%at] : (tensor<16x8xf32>, tensor<1x16xi32>) -> tensor<1x16x8xf32>
    %s = nn.add %x, %q : tensor<1x16x8xf32>
    nn.keep %s as "sum" : tensor<1x16x8xf32>
    %c0 = arith.constant 0 : index
    %y = nn.call @block(%s, %rng, %c0, %mb) path "h.0" : (tensor<1x16x8xf32>, tensor<4xi32>, index, index) -> tensor<1x16x8xf32>
    %c1 = arith.constant 1 : index
    %z = nn.call @block(%y, %rng, %c1, %mb) path "h.1" : (tensor<1x16x8xf32>, tensor<4xi32>, index, index) -> tensor<1x16x8xf32>
    %n = nn.get @n : tensor<8xf32>
    %m, %r = nn.rms_norm %z, %n {eps = 1.0e-5 : f64} : (tensor<1x16x8xf32>, tensor<8xf32>) -> (tensor<1x16x8xf32>, tensor<1x16xf32>)
    %l = nn.linear %m, %w {transposed} : (tensor<1x16x8xf32>, tensor<9x8xf32>) -> tensor<1x16x9xf32>
    nn.return %l : tensor<1x16x9xf32>
  }
}

// -----

// With a context, binaries that train compute texts through a cache: layers of
// these programs are their own, even where rows of evaluation have their size.
// CHECK-LABEL: nn.model @cached
// CHECK: nn.func @evaluate(%{{.*}}: tensor<1x1xi32>
// CHECK: nn.call @block(
// CHECK: nn.func @prefill.32(%{{.*}}: tensor<1x32xi32>, %{{.*}}: tensor<i32>) -> tensor<1x1x9xf32>
// CHECK: nn.call @block.prefill.32(
// CHECK: nn.func @decode.1(%{{.*}}: tensor<1x1xi32>) -> tensor<1x1x9xf32>
// CHECK: nn.call @block.decode.1(
// CHECK: nn.func @decode.2(%{{.*}}: tensor<2x1xi32>) -> tensor<2x1x9xf32>
// CHECK: nn.func @decode.3(%{{.*}}: tensor<3x1xi32>) -> tensor<3x1x9xf32>
// CHECK-NOT: @generate
nn.model @cached family "small" phase "import" attributes {
    strategy = #dist.strategy<{batch = {global = 1, micro = 1, seq = 1}, serve = {max_batch = 3, max_context = 200}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  nn.func @block(%x: tensor<1x3x8xf32>) -> tensor<1x3x8xf32> {
    %a, %lse = nn.attention %x, %x, %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x3x8xf32>, tensor<1x3x8xf32>, tensor<1x3x8xf32>) -> (tensor<1x3x8xf32>, tensor<1x2x3xf32>)
    nn.return %a : tensor<1x3x8xf32>
  }
  nn.func @model(%ids: tensor<1x3xi32>) -> tensor<1x3x9xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x3xi32>) -> tensor<1x3x8xf32>
    %a = nn.call @block(%x) path "h.0" : (tensor<1x3x8xf32>) -> tensor<1x3x8xf32>
    %l = nn.linear %a, %w {transposed} : (tensor<1x3x8xf32>, tensor<9x8xf32>) -> tensor<1x3x9xf32>
    nn.return %l : tensor<1x3x9xf32>
  }
}

// -----

// A token that sees those after it cannot be generated.
// CHECK-LABEL: nn.model @both
// CHECK: nn.func @evaluate
// CHECK-NOT: @generate
nn.model @both family "both" phase "import" attributes {
    strategy = #dist.strategy<{batch = {global = 2, micro = 2, seq = 4}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  nn.func @model(%ids: tensor<1x3xi32>) -> tensor<1x3x9xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x3xi32>) -> tensor<1x3x8xf32>
    %a, %lse = nn.attention %x, %x, %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x3x8xf32>, tensor<1x3x8xf32>, tensor<1x3x8xf32>) -> (tensor<1x3x8xf32>, tensor<1x2x3xf32>)
    %l = nn.linear %a, %w {transposed} : (tensor<1x3x8xf32>, tensor<9x8xf32>) -> tensor<1x3x9xf32>
    nn.return %l : tensor<1x3x9xf32>
  }
}

// -----

// Lengths are of the program's rows, and reach each layer.
// CHECK-LABEL: nn.model @padded
// CHECK: nn.func @forward(%[[IDS:.*]]: tensor<6x4xi32>, %{{.*}}: tensor<6x4xi32>, %[[N:.*]]: tensor<6xi32>) -> tensor<6x4xf32>
// CHECK-SAME: inputs = [#nn.port<ids>, #nn.port<labels>, #nn.port<lengths>]
// CHECK: nn.call @block(%{{[0-9]+}}, %[[N]]) path "h.0" : (tensor<6x4x8xf32>, tensor<6xi32>) -> tensor<6x4x8xf32>
// CHECK: nn.func @block(%{{.*}}: tensor<6x4x8xf32>, %[[N:.*]]: tensor<6xi32>)
// CHECK: nn.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} lengths %[[N]] {heads = #nn.heads<2, scale
// CHECK-NOT: @generate
nn.model @padded family "padded" phase "import" attributes {
    strategy = #dist.strategy<{batch = {global = 6, micro = 6, seq = 4}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  nn.func @block(%x: tensor<1x3x8xf32>, %n: tensor<1xi32>) -> tensor<1x3x8xf32> {
    %a, %lse = nn.attention %x, %x, %x lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x3x8xf32>, tensor<1x3x8xf32>, tensor<1x3x8xf32>, tensor<1xi32>) -> (tensor<1x3x8xf32>, tensor<1x2x3xf32>)
    nn.return %a : tensor<1x3x8xf32>
  }
  nn.func @model(%ids: tensor<1x3xi32>, %n: tensor<1xi32>) -> tensor<1x3x9xf32>
      attributes {inputs = [#nn.port<ids>, #nn.port<lengths>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x3xi32>) -> tensor<1x3x8xf32>
    %a = nn.call @block(%x, %n) path "h.0" : (tensor<1x3x8xf32>, tensor<1xi32>) -> tensor<1x3x8xf32>
    %l = nn.linear %a, %w {transposed} : (tensor<1x3x8xf32>, tensor<9x8xf32>) -> tensor<1x3x9xf32>
    nn.return %l : tensor<1x3x9xf32>
  }
}

// -----

nn.model @two_rows family "x" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  // expected-error @+2 {{H0358: the forward function has an argument "ids" that is not of one row of the logits' tokens}}
  // expected-note @+1 {{help: write it as tensor<1x3x...>}}
  nn.func @model(%ids: tensor<2x3xi32>) -> tensor<2x3x9xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<2x3xi32>) -> tensor<2x3x8xf32>
    %l = nn.linear %x, %w {transposed} : (tensor<2x3x8xf32>, tensor<9x8xf32>) -> tensor<2x3x9xf32>
    nn.return %l : tensor<2x3x9xf32>
  }
}

// -----

nn.model @hidden family "x" phase "import" attributes {
    strategy = #dist.strategy<{batch = {seq = 4}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  // expected-error @+2 {{H0358: the forward function must give the logits alone}}
  // expected-note @+1 {{help: return them}}
  nn.func @model(%ids: tensor<1x3xi32>) -> tensor<1x3x8xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<value, "x">]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x3xi32>) -> tensor<1x3x8xf32>
    nn.return %x : tensor<1x3x8xf32>
  }
}

// -----

// What encodes ends at the hidden states, without the head that reads them;
// that of one text gives the logits, too.

// CHECK-LABEL: nn.model @encoder
// CHECK: nn.state @w role parameter : tensor<9x8xf32>
// CHECK: nn.func @encode.1x16.logits(%[[IDS:.*]]: tensor<1x16xi32>, %[[N:.*]]: tensor<1xi32>) -> (tensor<1x16x8xf32>, tensor<1x16x9xf32>)
// CHECK-SAME: inputs = [#nn.port<ids>, #nn.port<lengths>], outputs = [#nn.port<hidden>, #nn.port<logits>], program = #nn.program<encode>
// CHECK: %[[H:.*]] = nn.call @block.encode.1x16.logits(
// CHECK: %[[LOGITS:.*]] = nn.linear %[[H]]
// CHECK: nn.return %[[H]], %[[LOGITS]]
// CHECK: nn.func @encode.1x16({{.*}}) -> tensor<1x16x8xf32>
// CHECK: %[[H:.*]] = nn.call @block.encode.1x16.logits(
// CHECK-NEXT: nn.return %[[H]]
// CHECK: nn.func @encode.3x16({{.*}}: tensor<3x16xi32>, %{{.*}}: tensor<3xi32>) -> tensor<3x16x8xf32>
// CHECK: nn.attention {{.*}} lengths %{{.*}} tensor<3xi32>) -> (tensor<3x16x8xf32>,
// CHECK: nn.func @encode.1x20.logits({{.*}}: tensor<1x20xi32>
// CHECK: nn.func @encode.3x20(
// CHECK-NOT: nn.func @encode
nn.model @encoder family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = encode, max_batch = 3, max_context = 20}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  nn.func @block(%x: tensor<1x32x8xf32>, %n: tensor<1xi32>) -> tensor<1x32x8xf32> {
    %a, %lse = nn.attention %x, %x, %x lengths %n {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x32x8xf32>, tensor<1x32x8xf32>, tensor<1x32x8xf32>, tensor<1xi32>) -> (tensor<1x32x8xf32>, tensor<1x2x32xf32>)
    nn.return %a : tensor<1x32x8xf32>
  }
  nn.func @model(%ids: tensor<1x32xi32>, %n: tensor<1xi32>) -> tensor<1x32x9xf32>
      attributes {inputs = [#nn.port<ids>, #nn.port<lengths>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x32xi32>) -> tensor<1x32x8xf32>
    %y = nn.call @block(%x, %n) path "h.0" : (tensor<1x32x8xf32>, tensor<1xi32>) -> tensor<1x32x8xf32>
    nn.keep %y as "hidden" : tensor<1x32x8xf32>
    %logits = nn.linear %y, %w {transposed} : (tensor<1x32x8xf32>, tensor<9x8xf32>) -> tensor<1x32x9xf32>
    nn.return %logits : tensor<1x32x9xf32>
  }
}

// -----

// expected-error @+2 {{H0127: --mode encode is for encoders, and this model does not say which values are its hidden states}}
// expected-note @+1 {{help: it continues texts: use --mode serve}}
nn.model @continues family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = encode}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32>
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x8xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x16xi32>) -> tensor<1x16x8xf32>
    nn.return %x : tensor<1x16x8xf32>
  }
}
