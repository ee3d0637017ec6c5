//===- NNNormOps.td - Normalization over rows ---------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layer norm and RMS norm, with the gradients of their inputs and weights. This
// file uses the classes of NNOps.td, which includes it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_NORM_OPS
#define HEDDLE_DIALECTS_NN_NORM_OPS

def NN_LayerNormOp : NN_ComputeOp<"layer_norm",
    (ins NN_Float:$input, NN_Float:$weight, NN_Float:$bias, F64Attr:$eps), [NN_Rowwise]> {
  let summary = "y = (x - mean) * rstd * w + b, statistics over the last dimension";
  let description = [{
    x and y are [..., C], `weight` and `bias` [C], `mean` and `rstd` f32 [...].

    ```mlir
    %y, %mean, %rstd = nn.layer_norm %x, %w, %b {eps = 1.000000e-05 : f64}
        : (tensor<2x16x768xf32>, tensor<768xf32>, tensor<768xf32>)
        -> (tensor<2x16x768xf32>, tensor<2x16xf32>, tensor<2x16xf32>)
    ```

    rstd = 1 / sqrt(variance + eps), with the biased variance.
  }];
  let results = (outs NN_Float:$output, NN_F32:$mean, NN_F32:$rstd);
  let assemblyFormat = [{
    $input `,` $weight `,` $bias attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<"result > 0">.declaration;
}

def NN_LayerNormGradInputOp : NN_NonDifferentiableOp<"layer_norm_grad_input",
    (ins NN_Float:$grad, NN_Float:$input, NN_Float:$weight, NN_F32:$mean,
         NN_F32:$rstd), [NN_Rowwise]> {
  let summary = "The gradient of nn.layer_norm with respect to its input.";
  let description = [{
    `grad`, x and out are [..., C], `weight` [C], `mean` and `rstd` [...].

    ```mlir
    %dx = nn.layer_norm_grad_input %g, %x, %w, %mean, %rstd
        : (tensor<2x16x768xf32>, tensor<2x16x768xf32>, tensor<768xf32>, tensor<2x16xf32>, tensor<2x16xf32>)
        -> tensor<2x16x768xf32>
    ```

    With g = grad * w and xh = (x - mean) * rstd,
    out = rstd * (g - mean(g) - xh * mean(g * xh)), means over the last
    dimension.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $grad `,` $input `,` $weight `,` $mean `,` $rstd attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_LayerNormGradWeightOp : NN_NonDifferentiableOp<"layer_norm_grad_weight",
    (ins NN_Float:$grad, NN_Float:$input, NN_F32:$mean, NN_F32:$rstd,
         Optional<NN_Float>:$weight_init, Optional<NN_Float>:$bias_init),
    [AttrSizedOperandSegments]> {
  let summary = "The gradients of nn.layer_norm with respect to weight and bias.";
  let description = [{
    `grad` and x are [..., C], `mean` and `rstd` [...]; the results and the
    optional `weight_init` and `bias_init` are [C].

    ```mlir
    %dw, %db = nn.layer_norm_grad_weight %g, %x, %mean, %rstd
        : (tensor<2x16x768xf32>, tensor<2x16x768xf32>, tensor<2x16xf32>, tensor<2x16xf32>)
        -> (tensor<768xf32>, tensor<768xf32>)
    ```

    weight_grad[c] = weight_init[c] + sum over rows of grad * (x - mean) * rstd,
    bias_grad[c] = bias_init[c] + sum over rows of grad. The sums are in f32 and
    rounded once.
  }];
  let results = (outs NN_Float:$weight_grad, NN_Float:$bias_grad);
  let assemblyFormat = [{
    $grad `,` $input `,` $mean `,` $rstd (`weight_init` $weight_init^)? (`bias_init` $bias_init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::heddle::nn::Init> getSums() {
      return {{getWeightInitMutable(), getWeightGrad()},
              {getBiasInitMutable(), getBiasGrad()}};
    }
  }];
}

def NN_RmsNormOp : NN_ComputeOp<"rms_norm",
    (ins NN_Float:$input, NN_Float:$weight, F64Attr:$eps), [NN_Rowwise]> {
  let summary = "y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps) over the last dimension";
  let description = [{
    x and y are [..., C], `weight` [C], `rstd` f32 [...].

    ```mlir
    %y, %rstd = nn.rms_norm %x, %w {eps = 1.000000e-05 : f64}
        : (tensor<2x16x768xf32>, tensor<768xf32>) -> (tensor<2x16x768xf32>, tensor<2x16xf32>)
    ```
  }];
  let results = (outs NN_Float:$output, NN_F32:$rstd);
  let assemblyFormat = [{
    $input `,` $weight attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_StaysF32<"result > 0">.declaration;
}

def NN_RmsNormGradInputOp : NN_NonDifferentiableOp<"rms_norm_grad_input",
    (ins NN_Float:$grad, NN_Float:$input, NN_Float:$weight, NN_F32:$rstd), [NN_Rowwise]> {
  let summary = "The gradient of nn.rms_norm with respect to its input.";
  let description = [{
    `grad`, x and out are [..., C], `weight` [C], `rstd` [...].

    ```mlir
    %dx = nn.rms_norm_grad_input %g, %x, %w, %rstd
        : (tensor<2x16x768xf32>, tensor<2x16x768xf32>, tensor<768xf32>, tensor<2x16xf32>)
        -> tensor<2x16x768xf32>
    ```

    With g = grad * w and xh = x * rstd, out = rstd * (g - xh * mean(g * xh)),
    the mean over the last dimension.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $grad `,` $input `,` $weight `,` $rstd attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_RmsNormGradWeightOp : NN_NonDifferentiableOp<"rms_norm_grad_weight",
    (ins NN_Float:$grad, NN_Float:$input, NN_F32:$rstd, Optional<NN_Float>:$init)> {
  let summary = "The gradient of nn.rms_norm with respect to its weight.";
  let description = [{
    `grad` and x are [..., C], `rstd` [...], `init` and out [C]. Without `init`
    it is 0.

    ```mlir
    %dw = nn.rms_norm_grad_weight %g, %x, %rstd
        : (tensor<2x16x768xf32>, tensor<2x16x768xf32>, tensor<2x16xf32>) -> tensor<768xf32>
    ```

    out[c] = init[c] + sum over rows of grad * x * rstd. The sum is in f32 and
    rounded once.
  }];
  let results = (outs NN_Float:$output);
  let assemblyFormat = [{
    $grad `,` $input `,` $rstd (`init` $init^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = NN_SumsOntoInit.declaration;
}

#endif // HEDDLE_DIALECTS_NN_NORM_OPS
