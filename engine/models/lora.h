// Low-rank adapters for the products of a frozen model (LoRA: Hu et al., "LoRA: low-rank adaptation of large language
// models", ICLR 2022).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

struct LoraOptions {
  std::vector<std::string> targets;          // patterns of variables ("block1/*": `*` matches any characters)
  std::vector<std::string> modules_to_save;  // patterns of further variables, which are trained without adapters
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;     // 0 <= dropout < 1, on the adapters' inputs in training; table rows have none
  bool freeze_a = false;  // FFA-LoRA: Sun et al., "Improving LoRA in privacy-preserving federated learning", ICLR 2024
  bool rslora = false;    // Kalajdzievski, "A rank stabilization scaling factor for fine-tuning with LoRA", 2023
};

// Adds x · A · B · s to each product x · W of a target variable W; s is alpha / rank, or alpha / √rank with rslora.
// As in PEFT, A is uniform within 1 / √(values summed over). B is zero, so the model's outputs do not change, to
// the bit. The run's seed determines A; other variables keep their initial values. W has the adapters "W/lora_A"
// [in…, rank] and "W/lora_B" [rank, out…], with the axes of W at its first product. A stack of matrices has a pair
// for each, with the stack's axes in front. If W is in several products, such as a tied embedding, they share one
// pair.
//
// Every other variable becomes frozen, except modules_to_save and local ones. Training omits the frozen variables' own
// updates (running averages). If training and evaluation share a graph and there is dropout, training gets a copy of
// the shared part.
//
// NOT_FOUND: a pattern matches no variable (names the nearest). INVALID_ARGUMENT: a target pattern without any weight
// of a product; a recurrent cell's weight; a weight with another use too, or of a convolution that has no adapter
// (depthwise, transposed, in groups); a model without a graph.
Status AddLora(ModelDef& model, const LoraOptions& options);

// One adapter, described by attributes of the graph.
struct LoraAdapter {
  std::string variable;  // W
  std::string a, b;      // the adapter's variables
  std::string kind;      // of the first product: matrix, einsum, rows, convolution
  int64_t rank = 0;
  double scale = 0;
  double dropout = 0;
  int64_t matrices = 1;  // pairs that are concatenated in A and in B
  // A · B, with a matrix [in, out] for each pair, has the axes `product`. Transposed by `order`, they are those of W at
  // the product. Reshaped to `seen` and transposed by `perm`, the result has the values of W in their order.
  std::vector<int64_t> product, order, seen, perm;
};

// Returns the adapters of a graph, in the order of their variables.
std::vector<LoraAdapter> LoraAdaptersOf(const Graph& graph);

// Returns W + A · B · scale in the layout of W, each value rounded once. `base`, `a` and `b` are float32.
// INVALID_ARGUMENT: other types, or sizes that differ from the adapter's.
StatusOr<Tensor> MergeLora(const LoraAdapter& adapter, const Tensor& base, const Tensor& a, const Tensor& b);

}  // namespace rivulet
