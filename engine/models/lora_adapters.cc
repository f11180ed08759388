// Adapters as a graph describes them, and their sum with the weights that they stand beside.
#include <algorithm>
#include <map>

#include "engine/graph/variable_name.h"
#include "engine/models/lora.h"
#include "engine/models/lora_attributes.h"

namespace rivulet {
namespace {

constexpr char kOf[] = "_lora_of", kKind[] = "_lora_kind", kRank[] = "_lora_rank", kScale[] = "_lora_scale",
               kDropout[] = "_lora_dropout", kMatrices[] = "_lora_matrices", kProduct[] = "_lora_product",
               kOrder[] = "_lora_order", kSeen[] = "_lora_seen", kPerm[] = "_lora_perm";

using AdapterDims = std::vector<int64_t>;

std::vector<int64_t> StridesOf(const AdapterDims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// The place of each value of a tensor of sizes `dims`, transposed by `perm`, in the tensor itself.
template <typename Visit>
void EachTransposed(const AdapterDims& dims, const AdapterDims& perm, const Visit& visit) {
  const std::vector<int64_t> strides = StridesOf(dims);
  AdapterDims at(dims.size());
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  for (int64_t to = 0; to < elements; ++to) {
    int64_t from = 0;
    for (size_t i = 0; i < perm.size(); ++i) from += at[i] * strides[static_cast<size_t>(perm[i])];
    visit(to, from);
    for (size_t i = perm.size(); i-- > 0 && ++at[i] == dims[static_cast<size_t>(perm[i])];) at[i] = 0;
  }
}

std::vector<double> Transposed(const std::vector<double>& values, const AdapterDims& dims, const AdapterDims& perm) {
  std::vector<double> result(values.size());
  EachTransposed(dims, perm, [&](int64_t to, int64_t from) {
    result[static_cast<size_t>(to)] = values[static_cast<size_t>(from)];
  });
  return result;
}

}  // namespace

AttrMap LoraAttributes(const std::string& variable, const WeightUse& use, int64_t rank, double scale, double dropout) {
  AdapterDims product, order(static_cast<size_t>(use.layout.after.rank()));
  for (const AdapterDims* axes : {&use.batch, &use.in, &use.out})
    for (const int64_t axis : *axes) {
      order[static_cast<size_t>(axis)] = std::ssize(product);
      product.push_back(use.layout.after.dim(static_cast<int>(axis)));
    }
  const Shape seen = use.layout.transposed();
  AdapterDims back(use.layout.perm.size());
  for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(use.layout.perm[i])] = static_cast<int64_t>(i);
  return {{kOf, variable},
          {kKind, std::string(Name(use.kind))},
          {kRank, rank},
          {kScale, static_cast<float>(scale)},
          {kDropout, static_cast<float>(dropout)},
          {kMatrices, use.Elements(use.batch)},
          {kProduct, std::move(product)},
          {kOrder, std::move(order)},
          {kSeen, AdapterDims(seen.dims().begin(), seen.dims().end())},
          {kPerm, std::move(back)}};
}

std::vector<LoraAdapter> LoraAdaptersOf(const Graph& graph) {
  std::vector<LoraAdapter> adapters;
  for (const auto& node : graph.nodes()) {
    const std::string* of = node->type() == "VarHandleOp" ? node->FindAttr<std::string>(kOf) : nullptr;
    if (of == nullptr) continue;
    adapters.push_back({.variable = *of,
                        .a = std::string(VariableName(*node)),
                        .b = *of + "/lora_B",
                        .kind = node->attr<std::string>(kKind),
                        .rank = node->attr<int64_t>(kRank),
                        .scale = node->attr<float>(kScale),
                        .dropout = node->attr<float>(kDropout),
                        .matrices = node->attr<int64_t>(kMatrices),
                        .product = node->attr<AdapterDims>(kProduct),
                        .order = node->attr<AdapterDims>(kOrder),
                        .seen = node->attr<AdapterDims>(kSeen),
                        .perm = node->attr<AdapterDims>(kPerm)});
  }
  return adapters;
}

StatusOr<Tensor> MergeLora(const LoraAdapter& adapter, const Tensor& base, const Tensor& a, const Tensor& b) {
  for (const Tensor* tensor : {&base, &a, &b})
    if (tensor->dtype() != DType::kFloat32)
      return InvalidArgument("'{}' and its adapter are merged in float32, and one of them is {}", adapter.variable,
                             Name(tensor->dtype()));
  const int64_t matrices = adapter.matrices, rank = adapter.rank;
  const int64_t rows = a.elements() / (matrices * rank), columns = b.elements() / (matrices * rank);
  if (a.elements() != matrices * rows * rank || b.elements() != matrices * rank * columns ||
      base.elements() != matrices * rows * columns)
    return InvalidArgument("the adapter {} and {} of rank {} does not fit '{}' {}", a.shape().ToString(),
                           b.shape().ToString(), rank, adapter.variable, base.shape().ToString());
  std::vector<double> sums(static_cast<size_t>(base.elements()));
  const std::span<const float> left = a.flat<float>(), right = b.flat<float>();
  for (int64_t row = 0; row < matrices * rows; ++row) {
    double* const sum = sums.data() + row * columns;
    for (int64_t r = 0; r < rank; ++r) {
      const double factor = static_cast<double>(left[static_cast<size_t>(row * rank + r)]) * adapter.scale;
      const float* const line = right.data() + (row / rows * rank + r) * columns;
      for (int64_t column = 0; column < columns; ++column) sum[column] += factor * static_cast<double>(line[column]);
    }
  }
  sums = Transposed(sums, adapter.product, adapter.order);
  sums = Transposed(sums, adapter.seen, adapter.perm);
  Tensor merged(DType::kFloat32, base.shape());
  for (size_t i = 0; i < sums.size(); ++i)
    merged.flat<float>()[i] = static_cast<float>(static_cast<double>(base.flat<float>()[i]) + sums[i]);
  return merged;
}

}  // namespace rivulet
