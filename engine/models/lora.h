// Low-rank adapters beside the products of a frozen model (LoRA: Hu et al., "LoRA: low-rank adaptation of large
// language models", ICLR 2022).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

struct LoraOptions {
  std::vector<std::string> targets;          // patterns of variables ("block1/*": `*` stands for any characters)
  std::vector<std::string> modules_to_save;  // patterns of further variables that stay as they are: trainable
  int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;     // 0 <= dropout < 1, on the adapters' inputs in training; rows of a table have none
  bool freeze_a = false;  // FFA-LoRA: Sun et al., "Improving LoRA in privacy-preserving federated learning", ICLR 2024
  bool rslora = false;    // Kalajdzievski, "A rank stabilization scaling factor for fine-tuning with LoRA", 2023
};

// Puts x · A · B · s beside each product x · W that a variable W of the targets feeds, s being alpha / rank, or alpha /
// √rank with rslora. A is drawn as PEFT draws it, uniform within 1 / √(values summed over), and B is zero, so that the
// model computes what it did before, to the bit; the run's seed decides A, and the other variables' first values stay
// those that they were. A variable W has the adapters "W/lora_A" [in…, rank] and "W/lora_B" [rank, out…], of the axes
// of W at its first product; a stack of matrices has a pair for each, with its axes in front. W in several products,
// such as a tied embedding, has one pair for all.
//
// Every other variable becomes frozen, but those of modules_to_save and those that are local; the frozen ones' own
// updates (running averages) are left out of training. Where training and evaluation share a graph and there is
// dropout, training gets a copy of the shared part.
//
// NOT_FOUND: a pattern that matches no variable (names the nearest). INVALID_ARGUMENT: a pattern of targets none of
// whose variables is the weight of a product; a recurrent cell's weight; a weight that something else takes too, or a
// convolution that has no adapter (depthwise, transposed, in groups); a model without a graph.
Status AddLora(ModelDef& model, const LoraOptions& options);

// One adapter, as its graph describes it.
struct LoraAdapter {
  std::string variable;  // W
  std::string a, b;      // the adapter's variables
  std::string kind;      // of its first product: matrix, einsum, rows, convolution
  int64_t rank = 0;
  double scale = 0;
  double dropout = 0;
  int64_t matrices = 1;  // pairs that lie side by side in A and in B
  // A · B, a matrix [in, out] for each, has the axes `product`, which transposed by `order` are those of W at the
  // product. These, seen as `seen` and transposed by `perm`, hold the values of W in their order.
  std::vector<int64_t> product, order, seen, perm;
};

// The adapters of a graph, in the order of their variables.
std::vector<LoraAdapter> LoraAdaptersOf(const Graph& graph);

// W + A · B · scale in the layout of W, each value rounded once. `base` is float32, as `a` and `b` are.
// INVALID_ARGUMENT: values of other types, or of other sizes than the adapter has.
StatusOr<Tensor> MergeLora(const LoraAdapter& adapter, const Tensor& base, const Tensor& a, const Tensor& b);

}  // namespace rivulet
