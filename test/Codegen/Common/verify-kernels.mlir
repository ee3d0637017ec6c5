// RUN: heddle-opt %s -split-input-file -verify-diagnostics -kernels-verify

nn.model @m family "gpt2" phase "kernels" attributes {
    config = "{}", strategy = #dist.strategy<{}>, weights = {}} {
  // expected-error @below {{H0397: is not compiled}}
  plan.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    plan.yield %x : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "kernels" attributes {
    config = "{}", strategy = #dist.strategy<{}>, weights = {}} {
  // expected-error @below {{H0397: names the object @k.o, which is not there}}
  plan.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, object = @k.o,
                  symbol = "k", scratch_bytes = 0 : i64, hash = "0"} {
    plan.yield %x : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "kernels" attributes {
    config = "{}", strategy = #dist.strategy<{}>, weights = {}} {
  // expected-error @below {{H0397: is not the kernel that its code was compiled from, or not for this target}}
  // expected-note @below {{help: compile it again: edit the dump of the phase fuse, and --start-from fuse}}
  plan.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, object = @k.o,
                  symbol = "k", scratch_bytes = 0 : i64, hash = "0"} {
    plan.yield %x : tensor<4xf32>
  }
  plan.object @k.o "bm8gb2JqZWN0"
}

// -----

// A GPU's kernels are not looked at.
nn.model @m family "gpt2" phase "kernels" attributes {
    config = "{}", strategy = #dist.strategy<{target = "sm_90"}>, weights = {}} {
  plan.kernel @k(%x: tensor<4xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    plan.yield %x : tensor<4xf32>
  }
}
