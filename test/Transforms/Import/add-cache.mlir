// RUN: heddle-opt %s --import-derive-programs --import-add-cache --import-verify --split-input-file --verify-diagnostics | FileCheck %s

// Programs of several sizes share the caches, two states for each attention. A
// layer gets those of its attention as arguments and returns them; positions are
// an input, and a table that begins later is read from there.

// CHECK-LABEL: nn.model @small
// CHECK: nn.state @h.0.keys role cache : tensor<4x1x4x16xf32>
// CHECK-NEXT: nn.state @h.0.values role cache : tensor<4x1x16x4xf32>
// CHECK-NEXT: nn.state @h.1.keys role cache
// CHECK-NEXT: nn.state @h.1.values role cache
// CHECK: nn.func @prefill.16(%[[IDS:.*]]: tensor<1x16xi32>, %{{.*}}: tensor<i32>, %[[AT:.*]]: tensor<1x16xi32>, %[[N:.*]]: tensor<1xi32>, %[[PAGES:.*]]: tensor<1x2xi32>) -> tensor<1x1x9xf32>
// CHECK-SAME: inputs = [#nn.port<ids>, #nn.port<position>, #nn.port<positions>, #nn.port<lengths>, #nn.port<pages>]
// CHECK-SAME: program = #nn.program<prefill>
// CHECK-NOT: nn.positions
// CHECK: %[[FIRST:.*]] = arith.constant -2 : index
// CHECK: nn.embedding %{{.*}}[%[[AT]]] first %[[FIRST]]
// CHECK: %[[K:.*]] = nn.get @h.0.keys
// CHECK: %[[V:.*]] = nn.get @h.0.values
// CHECK: %[[Y:.*]]:3 = nn.call @block.prefill.16(%{{[^,]*}}, %{{[^,]*}}, %[[K]], %[[V]], %[[PAGES]], %[[AT]], %[[N]]) path "h.0"
// CHECK-NEXT: nn.set @h.0.keys, %[[Y]]#1
// CHECK-NEXT: nn.set @h.0.values, %[[Y]]#2
// CHECK: nn.call @block.prefill.16(%[[Y]]#0
// CHECK: nn.take_row
// CHECK: nn.func @block.prefill.16(
// CHECK-NOT: nn.attention
// CHECK: %[[K1:.*]], %[[V1:.*]] = nn.cache_write
// CHECK: %[[A:.*]] = nn.paged_attention %[[K1]], %[[V1]] of
// CHECK: nn.return %{{.*}}, %[[K1]], %[[V1]]
// CHECK: nn.func @prefill.32(
// CHECK: nn.func @score.32({{.*}}) -> tensor<1x32x9xf32>
// CHECK-NOT: nn.take_row
// CHECK: nn.call @block.prefill.32(
// CHECK: nn.func @decode.1(%{{.*}}: tensor<1x1xi32>, %{{.*}}: tensor<1x1xi32>, %{{.*}}: tensor<1xi32>, %{{.*}}: tensor<1x2xi32>) -> tensor<1x1x9xf32>
// CHECK: nn.func @decode.2({{.*}}tensor<2x2xi32>) -> tensor<2x1x9xf32>
nn.model @small family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = serve, max_batch = 2, max_context = 32}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x8xf32> {trainable, checkpointed, source = #nn.source<"w" : tensor<9x8xf32>>, init = #nn.init<constant, 0.0 : f64, 0.0 : f64>}
  nn.state @p role parameter : tensor<40x8xf32> {trainable, checkpointed, source = #nn.source<"p" : tensor<40x8xf32>>, init = #nn.init<constant, 0.0 : f64, 0.0 : f64>}
  nn.state @k role parameter : tensor<8x4xf32> {trainable, checkpointed, source = #nn.source<"k" : tensor<8x4xf32>>, init = #nn.init<constant, 0.0 : f64, 0.0 : f64>}
  nn.func @block(%x: tensor<1x16x8xf32>, %wk: tensor<8x4xf32>) -> tensor<1x16x8xf32> {
    %k = nn.linear %x, %wk : (tensor<1x16x8xf32>, tensor<8x4xf32>) -> tensor<1x16x4xf32>
    %a, %lse = nn.attention %x, %k, %k {heads = #nn.heads<2, kv = 1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x16x8xf32>, tensor<1x16x4xf32>, tensor<1x16x4xf32>) -> (tensor<1x16x8xf32>, tensor<1x2x16xf32>)
    nn.return %a : tensor<1x16x8xf32>
  }
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x9xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x8xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x8xf32>, tensor<1x16xi32>) -> tensor<1x16x8xf32>
    %at = nn.positions {offset = 2} : () -> tensor<1x16xi32>
    %p = nn.get @p : tensor<40x8xf32>
    %q = nn.embedding %p[%at] : (tensor<40x8xf32>, tensor<1x16xi32>) -> tensor<1x16x8xf32>
    %s = nn.add %x, %q : tensor<1x16x8xf32>
    %k = nn.get @k : tensor<8x4xf32>
    %y = nn.call @block(%s, %k) path "h.0" : (tensor<1x16x8xf32>, tensor<8x4xf32>) -> tensor<1x16x8xf32>
    %z = nn.call @block(%y, %k) path "h.1" : (tensor<1x16x8xf32>, tensor<8x4xf32>) -> tensor<1x16x8xf32>
    %logits = nn.linear %z, %w {transposed} : (tensor<1x16x8xf32>, tensor<9x8xf32>) -> tensor<1x16x9xf32>
    nn.return %logits : tensor<1x16x9xf32>
  }
}

// -----

// Where every attention has a window, a cache has the pages that a window and a
// run of 512 tokens may touch, for each text: 3 + 32 + 1, not 125.

// CHECK-LABEL: nn.model @windows
// CHECK: nn.state @keys role cache : tensor<72x2x2x16xf32>
// CHECK: nn.func @prefill.16({{.*}}tensor<1x125xi32>)
// CHECK: nn.paged_attention {{.*}} {heads = #nn.heads<2, scale = 5.000000e-01, softcap = 3.000000e+00>, mask = #nn.mask<causal, window = 37>}
nn.model @windows family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = serve, max_batch = 2, max_context = 2000}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x12xf32> {trainable, checkpointed, source = #nn.source<"w" : tensor<9x12xf32>>, init = #nn.init<constant, 0.0 : f64, 0.0 : f64>}
  nn.state @h role parameter : tensor<4x9xf32> {trainable, checkpointed, source = #nn.source<"h" : tensor<4x9xf32>>, init = #nn.init<constant, 0.0 : f64, 0.0 : f64>}
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x9xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x12xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x12xf32>, tensor<1x16xi32>) -> tensor<1x16x12xf32>
    %a, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5, softcap = 3.0>, mask = #nn.mask<causal, window = 37>} : (tensor<1x16x12xf32>) -> (tensor<1x16x4xf32>, tensor<1x2x16xf32>)
    %h = nn.get @h : tensor<4x9xf32>
    %logits = nn.linear %a, %h : (tensor<1x16x4xf32>, tensor<4x9xf32>) -> tensor<1x16x9xf32>
    nn.return %logits : tensor<1x16x9xf32>
  }
}

// -----

// expected-error @+2 {{H0127: --mode serve continues texts, and this model cannot}}
// expected-note @+1 {{help: a model continues a text if it reads nothing but ids and its attention is causal}}
nn.model @full family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = serve, max_context = 32}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x12xf32>
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x4xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x12xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x12xf32>, tensor<1x16xi32>) -> tensor<1x16x12xf32>
    %a, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<full>} : (tensor<1x16x12xf32>) -> (tensor<1x16x4xf32>, tensor<1x2x16xf32>)
    nn.return %a : tensor<1x16x4xf32>
  }
}

// -----

// expected-error @+2 {{H0204: a cache of 100 B (100 bytes) has no room for a text of 32 tokens, which needs 1.00 KiB (1024 bytes)}}
// expected-note @+1 {{help: give it --kv-cache 1024, or a smaller --max-context}}
nn.model @tight family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = serve, max_context = 32, kv_cache = 100}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x12xf32>
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x4xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x12xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x12xf32>, tensor<1x16xi32>) -> tensor<1x16x12xf32>
    %a, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x16x12xf32>) -> (tensor<1x16x4xf32>, tensor<1x2x16xf32>)
    nn.return %a : tensor<1x16x4xf32>
  }
}

// -----

// A cache of codes has scales, two for each position of a head. A page has
// 2 x 16 x 4 codes and 2 x 16 scales: a text of 32 tokens has two.
// CHECK-LABEL: nn.model @codes
// CHECK: nn.state @keys role cache : tensor<7x1x4x16xi8>
// CHECK-NEXT: nn.state @values role cache : tensor<7x1x16x4xi8>
// CHECK-NEXT: nn.state @scales role cache : tensor<7x1x2x16xf16>
// CHECK: nn.func @prefill.16(
// CHECK: %[[S:.*]] = nn.get @scales
// CHECK: %[[K1:.*]], %[[V1:.*]], %[[S1:.*]] = nn.cache_write %{{.*}}, %{{.*}} scales %[[S]] of
// CHECK: nn.paged_attention %[[K1]], %[[V1]] scales %[[S1]] of
// CHECK: nn.set @keys, %[[K1]]
// CHECK-NEXT: nn.set @values, %[[V1]]
// CHECK-NEXT: nn.set @scales, %[[S1]]
nn.model @codes family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = serve, max_context = 32, kv_cache = 1400, kv_type = int8}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x12xf32> {trainable, checkpointed, source = #nn.source<"w" : tensor<9x12xf32>>, init = #nn.init<constant, 0.0 : f64, 0.0 : f64>}
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x4xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x12xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x12xf32>, tensor<1x16xi32>) -> tensor<1x16x12xf32>
    %a, %lse = nn.attention %x {heads = #nn.heads<1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x16x12xf32>) -> (tensor<1x16x4xf32>, tensor<1x1x16xf32>)
    nn.return %a : tensor<1x16x4xf32>
  }
}
