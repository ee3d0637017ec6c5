// RUN: heddle-opt %s --import-derive-programs=guesses=2 --import-add-cache=pages=7 --split-input-file --verify-diagnostics | FileCheck %s

// Decode has a row for the last token of each text and two guesses; the cache
// has the pages that it is given.

// CHECK-LABEL: nn.model @drafted
// CHECK: nn.state @keys role cache : tensor<7x2x2x16xf32>
// CHECK: nn.func @decode.1(
// CHECK: nn.func @decode.2(
// CHECK: nn.func @decode.4(
// CHECK: nn.func @decode.8(
// CHECK: nn.func @decode.9(%{{.*}}: tensor<9x1xi32>, %{{.*}}: tensor<9x1xi32>, %{{.*}}: tensor<9xi32>, %{{.*}}: tensor<9x2xi32>) -> tensor<9x1x9xf32>
// CHECK-NOT: nn.func @decode
nn.model @drafted family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = serve, max_batch = 3, max_context = 32, kv_cache = 1024}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x12xf32>
  nn.state @h role parameter : tensor<4x9xf32>
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x9xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x12xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x12xf32>, tensor<1x16xi32>) -> tensor<1x16x12xf32>
    %a, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x16x12xf32>) -> (tensor<1x16x4xf32>, tensor<1x2x16xf32>)
    %h = nn.get @h : tensor<4x9xf32>
    %logits = nn.linear %a, %h : (tensor<1x16x4xf32>, tensor<4x9xf32>) -> tensor<1x16x9xf32>
    nn.return %logits : tensor<1x16x9xf32>
  }
}

// -----

// expected-error @+2 {{H0205: a cache of 7 pages has no room for a text of 200 tokens, which needs 13 where no window lets them go}}
// expected-note @+1 {{help: use a draft whose windows are no larger than its target's, or a larger --kv-cache}}
nn.model @tight family "small" phase "import" attributes {
    strategy = #dist.strategy<{serve = {mode = serve, max_context = 200}}>,
    config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<9x12xf32>
  nn.state @h role parameter : tensor<4x9xf32>
  nn.func @model(%ids: tensor<1x16xi32>) -> tensor<1x16x9xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %w = nn.get @w : tensor<9x12xf32>
    %x = nn.embedding %w[%ids] : (tensor<9x12xf32>, tensor<1x16xi32>) -> tensor<1x16x12xf32>
    %a, %lse = nn.attention %x {heads = #nn.heads<2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<1x16x12xf32>) -> (tensor<1x16x4xf32>, tensor<1x2x16xf32>)
    %h = nn.get @h : tensor<4x9xf32>
    %logits = nn.linear %a, %h : (tensor<1x16x4xf32>, tensor<4x9xf32>) -> tensor<1x16x9xf32>
    nn.return %logits : tensor<1x16x9xf32>
  }
}
