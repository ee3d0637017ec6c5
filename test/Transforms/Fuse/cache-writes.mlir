// RUN: heddle-opt %s --split-input-file --fuse-form-kernels --fuse-verify | FileCheck %s --check-prefixes=CHECK,DEEP
// RUN: sed 's/target = "sm_90"/target = "sm_90", fusion = generic/' %s | heddle-opt --split-input-file --fuse-form-kernels --fuse-verify | FileCheck %s --check-prefixes=CHECK,APART
// RUN: sed 's/,* *target = "sm_90"//' %s | heddle-opt --split-input-file --fuse-form-kernels --fuse-verify | FileCheck %s --check-prefixes=CHECK,APART
// RUN: heddle-opt %s --split-input-file --fuse-form-kernels | sed 's/target = sm_90/target = sm_90, fusion = generic/' | not heddle-opt --split-input-file --fuse-verify 2>&1 | FileCheck %s --check-prefix=REFUSED

// On GPUs the attention of one token rotates q and k, and writes the cache.
nn.model @decode family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @block
  nn.func @block(%q: tensor<1x1x16xf32>, %k: tensor<1x1x8xf32>, %v: tensor<1x1x8xf32>, %keys: tensor<3x2x4x16xf32>, %values: tensor<3x2x16x4xf32>, %table: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>) {
    // DEEP-NEXT: %[[ALL:.*]]:3 = plan.launch @rotary_rotary_cache_write_paged_attention(
    // DEEP-NEXT: nn.return %[[ALL]]#2, %[[ALL]]#0, %[[ALL]]#1
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @cache_write
    // APART-NEXT: plan.launch @paged_attention
    // APART-NEXT: nn.return
    // REFUSED: H0907: cannot be in this kernel: a key head has 2 queries, more than 0
    %tq = nn.rotary %q at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<1x1x16xf32>, tensor<1x1xi32>) -> tensor<1x1x16xf32>
    %tk = nn.rotary %k at %at {dims = 4 : i64, heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<1x1x8xf32>, tensor<1x1xi32>) -> tensor<1x1x8xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
    nn.return %a, %k1, %v1 : tensor<1x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>
  }
}

// -----

// An operation that other operations read too has a kernel of its own, and so
// has one that needs a whole head.
nn.model @others family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @block
  nn.func @block(%q: tensor<1x1x16xf32>, %k: tensor<1x1x8xf32>, %v: tensor<1x1x8xf32>, %keys: tensor<3x2x4x16xf32>, %values: tensor<3x2x16x4xf32>, %table: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>) {
    // DEEP-NEXT: plan.launch @rotary
    // DEEP-NEXT: nn.keep
    // DEEP-NEXT: plan.launch @relu
    // DEEP-NEXT: plan.launch @cache_write_paged_attention
    // DEEP-NEXT: nn.return
    %tq = nn.rotary %q at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<1x1x16xf32>, tensor<1x1xi32>) -> tensor<1x1x16xf32>
    nn.keep %tq as "q" : tensor<1x1x16xf32>
    %rk = nn.map relu(%k) : tensor<1x1x8xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %tq, %rk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %tq, %rk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
    nn.return %a, %k1, %v1 : tensor<1x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>
  }
}

// -----

// The attention of many tokens has several blocks for a head.
nn.model @prefill family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @block
  nn.func @block(%x: tensor<1x9x32xf32>, %keys: tensor<3x2x4x16xf32>, %values: tensor<3x2x16x4xf32>, %table: tensor<1x1xi32>, %at: tensor<1x9xi32>, %n: tensor<1xi32>) -> (tensor<1x9x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>) {
    // CHECK-NEXT: plan.launch @cache_write
    // CHECK-NEXT: plan.launch @paged_attention
    // CHECK-NEXT: nn.return
    %k1, %v1 = nn.cache_write %keys, %values of %x pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x9x32xf32>, tensor<1x1xi32>, tensor<1x9xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %x pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x9x32xf32>, tensor<1x1xi32>, tensor<1x9xi32>, tensor<1xi32>) -> tensor<1x9x16xf32>
    nn.return %a, %k1, %v1 : tensor<1x9x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>
  }
}

// -----

// Rows may be tokens of one sequence: each reads what the rows before it write.
// So the write has a kernel of its own. It rotates k, and attention rotates q.
nn.model @rows family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @block
  nn.func @block(%q: tensor<3x1x16xf32>, %k: tensor<3x1x8xf32>, %v: tensor<3x1x8xf32>, %keys: tensor<3x2x4x16xf32>, %values: tensor<3x2x16x4xf32>, %table: tensor<3x1xi32>, %at: tensor<3x1xi32>, %n: tensor<3xi32>) -> (tensor<3x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>) {
    // DEEP-NEXT: %[[CACHE:.*]]:2 = plan.launch @rotary_cache_write(%{{[a-z0-9]+}}, %[[AT:[a-z0-9]+]], %[[KEYS:[a-z0-9]+]], %[[VALUES:[a-z0-9]+]], %[[Q:[a-z0-9]+]],
    // DEEP-NEXT: %[[OUT:.*]] = plan.launch @rotary_paged_attention(%[[Q]], %[[AT]], %[[CACHE]]#0, %[[CACHE]]#1,
    // DEEP-NEXT: nn.return %[[OUT]], %[[CACHE]]#0, %[[CACHE]]#1
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @cache_write
    // APART-NEXT: plan.launch @paged_attention
    // APART-NEXT: nn.return
    // REFUSED: H0907: cannot be in this kernel: cache writes of this target compute nothing
    %tq = nn.rotary %q at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<3x1x16xf32>, tensor<3x1xi32>) -> tensor<3x1x16xf32>
    %tk = nn.rotary %k at %at {dims = 4 : i64, heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<3x1x8xf32>, tensor<3x1xi32>) -> tensor<3x1x8xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x16xf32>, tensor<3x1x8xf32>, tensor<3x1x8xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x16xf32>, tensor<3x1x8xf32>, tensor<3x1x8xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<3x1x16xf32>
    nn.return %a, %k1, %v1 : tensor<3x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>
  }
}

// -----

// Norms of heads are computed where the heads are read.
nn.model @head_norms family "qwen3" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @block
  nn.func @block(%q: tensor<1x1x32xf32>, %k: tensor<1x1x16xf32>, %v: tensor<1x1x16xf32>, %w: tensor<8xf32>, %keys: tensor<3x2x8x16xf32>, %values: tensor<3x2x16x8xf32>, %table: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x32xf32>, tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>) {
    // DEEP-NEXT: plan.launch @reshape_rms_norm_reshape_
    // APART-NEXT: plan.launch @reshape_rms_norm
    // APART-NEXT: plan.launch @reshape
    // APART-NEXT: plan.launch @reshape_rms_norm
    // APART-NEXT: plan.launch @reshape
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @cache_write
    // APART-NEXT: plan.launch @paged_attention
    // CHECK-NEXT: nn.return
    %qh = nn.reshape %q : (tensor<1x1x32xf32>) -> tensor<1x1x4x8xf32>
    %qn, %qr = nn.rms_norm %qh, %w {eps = 1.0e-6 : f64} : (tensor<1x1x4x8xf32>, tensor<8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
    %qm = nn.reshape %qn : (tensor<1x1x4x8xf32>) -> tensor<1x1x32xf32>
    %kh = nn.reshape %k : (tensor<1x1x16xf32>) -> tensor<1x1x2x8xf32>
    %kn, %kr = nn.rms_norm %kh, %w {eps = 1.0e-6 : f64} : (tensor<1x1x2x8xf32>, tensor<8xf32>) -> (tensor<1x1x2x8xf32>, tensor<1x1x2xf32>)
    %km = nn.reshape %kn : (tensor<1x1x2x8xf32>) -> tensor<1x1x16xf32>
    %tq = nn.rotary %qm at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<1x1x32xf32>, tensor<1x1xi32>) -> tensor<1x1x32xf32>
    %tk = nn.rotary %km at %at {dims = 4 : i64, heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<1x1x16xf32>, tensor<1x1xi32>) -> tensor<1x1x16xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>, tensor<1x1x32xf32>, tensor<1x1x16xf32>, tensor<1x1x16xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>)
    %a = nn.paged_attention %k1, %v1 of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>, tensor<1x1x32xf32>, tensor<1x1x16xf32>, tensor<1x1x16xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x32xf32>
    nn.return %a, %k1, %v1 : tensor<1x1x32xf32>, tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>
  }
}

// -----

nn.model @head_norms_of_rows family "qwen3" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @block
  nn.func @block(%q: tensor<3x1x32xf32>, %k: tensor<3x1x16xf32>, %v: tensor<3x1x16xf32>, %w: tensor<8xf32>, %keys: tensor<3x2x8x16xf32>, %values: tensor<3x2x16x8xf32>, %table: tensor<3x1xi32>, %at: tensor<3x1xi32>, %n: tensor<3xi32>) -> (tensor<3x1x32xf32>, tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>) {
    // DEEP-NEXT: plan.launch @reshape_rms_norm_reshape_rotary_cache_write(
    // DEEP-NEXT: plan.launch @reshape_rms_norm_reshape_rotary_paged_attention
    // APART-NEXT: plan.launch @reshape_rms_norm
    // APART-NEXT: plan.launch @reshape
    // APART-NEXT: plan.launch @reshape_rms_norm
    // APART-NEXT: plan.launch @reshape
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @cache_write
    // APART-NEXT: plan.launch @paged_attention
    // CHECK-NEXT: nn.return
    %qh = nn.reshape %q : (tensor<3x1x32xf32>) -> tensor<3x1x4x8xf32>
    %qn, %qr = nn.rms_norm %qh, %w {eps = 1.0e-6 : f64} : (tensor<3x1x4x8xf32>, tensor<8xf32>) -> (tensor<3x1x4x8xf32>, tensor<3x1x4xf32>)
    %qm = nn.reshape %qn : (tensor<3x1x4x8xf32>) -> tensor<3x1x32xf32>
    %kh = nn.reshape %k : (tensor<3x1x16xf32>) -> tensor<3x1x2x8xf32>
    %kn, %kr = nn.rms_norm %kh, %w {eps = 1.0e-6 : f64} : (tensor<3x1x2x8xf32>, tensor<8xf32>) -> (tensor<3x1x2x8xf32>, tensor<3x1x2xf32>)
    %km = nn.reshape %kn : (tensor<3x1x2x8xf32>) -> tensor<3x1x16xf32>
    %tq = nn.rotary %qm at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<3x1x32xf32>, tensor<3x1xi32>) -> tensor<3x1x32xf32>
    %tk = nn.rotary %km at %at {dims = 4 : i64, heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<3x1x16xf32>, tensor<3x1xi32>) -> tensor<3x1x16xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>, tensor<3x1x32xf32>, tensor<3x1x16xf32>, tensor<3x1x16xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> (tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>)
    %a = nn.paged_attention %k1, %v1 of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>, tensor<3x1x32xf32>, tensor<3x1x16xf32>, tensor<3x1x16xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<3x1x32xf32>
    nn.return %a, %k1, %v1 : tensor<3x1x32xf32>, tensor<3x2x8x16xf32>, tensor<3x2x16x8xf32>
  }
}

// -----

// Not if a lane has no whole access of a head.
nn.model @small_heads family "qwen3" phase "spmd" attributes {
    strategy = #dist.strategy<{target = "sm_90"}>, config = "{}", weights = {}} {
  // CHECK-LABEL: nn.func @block
  nn.func @block(%q: tensor<1x1x16xf32>, %k: tensor<1x1x8xf32>, %v: tensor<1x1x8xf32>, %w: tensor<4xf32>, %keys: tensor<3x2x4x16xf32>, %values: tensor<3x2x16x4xf32>, %table: tensor<1x1xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> (tensor<1x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>) {
    // DEEP-NEXT: plan.launch @reshape_rms_norm
    // DEEP-NEXT: plan.launch @reshape_rms_norm
    // DEEP-NEXT: plan.launch @reshape_reshape_rotary_rotary_cache_write_paged_attention(
    // APART-NEXT: plan.launch @reshape_rms_norm
    // APART-NEXT: plan.launch @reshape
    // APART-NEXT: plan.launch @reshape_rms_norm
    // APART-NEXT: plan.launch @reshape
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @rotary
    // APART-NEXT: plan.launch @cache_write
    // APART-NEXT: plan.launch @paged_attention
    // CHECK-NEXT: nn.return
    %qh = nn.reshape %q : (tensor<1x1x16xf32>) -> tensor<1x1x4x4xf32>
    %qn, %qr = nn.rms_norm %qh, %w {eps = 1.0e-6 : f64} : (tensor<1x1x4x4xf32>, tensor<4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4xf32>)
    %qm = nn.reshape %qn : (tensor<1x1x4x4xf32>) -> tensor<1x1x16xf32>
    %kh = nn.reshape %k : (tensor<1x1x8xf32>) -> tensor<1x1x2x4xf32>
    %kn, %kr = nn.rms_norm %kh, %w {eps = 1.0e-6 : f64} : (tensor<1x1x2x4xf32>, tensor<4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x1x2xf32>)
    %km = nn.reshape %kn : (tensor<1x1x2x4xf32>) -> tensor<1x1x8xf32>
    %tq = nn.rotary %qm at %at {dims = 4 : i64, heads = 4 : i64, theta = 1.0e4 : f64} : (tensor<1x1x16xf32>, tensor<1x1xi32>) -> tensor<1x1x16xf32>
    %tk = nn.rotary %km at %at {dims = 4 : i64, heads = 2 : i64, theta = 1.0e4 : f64} : (tensor<1x1x8xf32>, tensor<1x1xi32>) -> tensor<1x1x8xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %tq, %tk, %v pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<1x1x16xf32>, tensor<1x1x8xf32>, tensor<1x1x8xf32>, tensor<1x1xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
    nn.return %a, %k1, %v1 : tensor<1x1x16xf32>, tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>
  }
}

// -----

// Without a draft, a program has no more rows than there are sequences.
nn.model @sequences family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{serve = {max_batch = 3}, target = "sm_90"}>, config = "{}", weights = {}} {
  nn.state @keys role cache : tensor<3x2x4x16xf32>
  nn.state @values role cache : tensor<3x2x16x4xf32>
  // CHECK-LABEL: nn.step @decode
  nn.step @decode(%x: tensor<3x1x32xf32>, %table: tensor<3x1xi32>, %at: tensor<3x1xi32>, %n: tensor<3xi32>) -> tensor<3x1x16xf32> attributes {kind = #nn.program<decode>, inputs = [#nn.port<hidden>, #nn.port<pages>, #nn.port<positions>, #nn.port<lengths>], outputs = [#nn.port<hidden>]} {
    // DEEP: plan.launch @cache_write_paged_attention(
    // APART: plan.launch @cache_write(
    // APART: plan.launch @paged_attention(
    // CHECK: nn.return
    %keys = nn.get @keys : tensor<3x2x4x16xf32>
    %values = nn.get @values : tensor<3x2x16x4xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %x pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x32xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %x pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x32xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<3x1x16xf32>
    nn.set @keys, %k1 : tensor<3x2x4x16xf32>
    nn.set @values, %v1 : tensor<3x2x16x4xf32>
    nn.return %a : tensor<3x1x16xf32>
  }
}

// -----

nn.model @guesses family "llama" phase "spmd" attributes {
    strategy = #dist.strategy<{serve = {max_batch = 2}, target = "sm_90"}>, config = "{}", weights = {}} {
  nn.state @keys role cache : tensor<3x2x4x16xf32>
  nn.state @values role cache : tensor<3x2x16x4xf32>
  // CHECK-LABEL: nn.step @decode
  nn.step @decode(%x: tensor<3x1x32xf32>, %table: tensor<3x1xi32>, %at: tensor<3x1xi32>, %n: tensor<3xi32>) -> tensor<3x1x16xf32> attributes {kind = #nn.program<decode>, inputs = [#nn.port<hidden>, #nn.port<pages>, #nn.port<positions>, #nn.port<lengths>], outputs = [#nn.port<hidden>]} {
    // CHECK: plan.launch @cache_write(
    // CHECK: plan.launch @paged_attention(
    // CHECK: nn.return
    %keys = nn.get @keys : tensor<3x2x4x16xf32>
    %values = nn.get @values : tensor<3x2x16x4xf32>
    %k1, %v1 = nn.cache_write %keys, %values of %x pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x32xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>)
    %a = nn.paged_attention %k1, %v1 of %x pages %table at %at lengths %n {heads = #nn.heads<4, kv = 2, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<3x2x4x16xf32>, tensor<3x2x16x4xf32>, tensor<3x1x32xf32>, tensor<3x1xi32>, tensor<3x1xi32>, tensor<3xi32>) -> tensor<3x1x16xf32>
    nn.set @keys, %k1 : tensor<3x2x4x16xf32>
    nn.set @values, %v1 : tensor<3x2x16x4xf32>
    nn.return %a : tensor<3x1x16xf32>
  }
}
