// Distinct elements in the order of their first occurrence; and elements of one list that are missing in another.
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

// Elements as bytes: equal values have equal bytes; the two zeros of floats, and NaNs, are normalised.
class Elements {
 public:
  explicit Elements(const Tensor& tensor) : tensor_(tensor), bytes_(SizeOf(tensor.dtype())) {}
  std::string_view operator[](int64_t i) const {
    const std::string_view element(reinterpret_cast<const char*>(tensor_.data()) + static_cast<size_t>(i) * bytes_,
                                   bytes_);
    if (!IsFloating(tensor_.dtype()) || element.back() != static_cast<char>(0x80)) return element;
    const bool zero = element.substr(0, bytes_ - 1).find_first_not_of('\0') == std::string_view::npos;
    return zero ? std::string_view(kZero, bytes_) : element;
  }
  int64_t size() const { return tensor_.elements(); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr char kZero[8] = {};
  const Tensor& tensor_;
  size_t bytes_;
};

StatusOr<Tensor> Chosen(const Tensor& from, const std::vector<int64_t>& places) {
  RIVULET_ASSIGN_OR_RETURN(Tensor chosen, Tensor::Create(from.dtype(), Shape({static_cast<int64_t>(places.size())})));
  const size_t bytes = SizeOf(from.dtype());
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(chosen.data() + i * bytes, from.data() + static_cast<size_t>(places[i]) * bytes, bytes);
  return chosen;
}

StatusOr<Tensor> Integers(DType dtype, const std::vector<int64_t>& values) {
  RIVULET_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype, Shape({static_cast<int64_t>(values.size())})));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kInt64)
      tensor.flat<int64_t>()[i] = values[i];
    else
      tensor.flat<int32_t>()[i] = static_cast<int32_t>(values[i]);
  }
  return tensor;
}

StatusOr<std::vector<Tensor>> UniqueOf(const AsyncContext& context) {
  const Tensor& x = context.inputs[0];
  const DType index = context.node.attr<DType>("out_idx");
  const Elements elements(x);
  std::unordered_map<std::string_view, int64_t> known;
  std::vector<int64_t> firsts, index_of, counts;
  for (int64_t i = 0; i < elements.size(); ++i) {
    const auto [at, is_new] = known.try_emplace(elements[i], static_cast<int64_t>(firsts.size()));
    if (is_new) {
      firsts.push_back(i);
      counts.push_back(0);
    }
    index_of.push_back(at->second);
    ++counts[static_cast<size_t>(at->second)];
  }
  std::vector<Tensor> outputs;
  RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Chosen(x, firsts));
  RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Integers(index, index_of));
  if (context.node.outputs().size() == 3) {
    RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Integers(index, counts));
  }
  return outputs;
}
void Unique(AsyncContext& context, AsyncDone done) { done(UniqueOf(context)); }

StatusOr<std::vector<Tensor>> DifferenceOf(const AsyncContext& context) {
  const Elements x(context.inputs[0]), y(context.inputs[1]);
  std::unordered_set<std::string_view> taken;
  for (int64_t i = 0; i < y.size(); ++i) taken.insert(y[i]);
  std::vector<int64_t> left;
  for (int64_t i = 0; i < x.size(); ++i)
    if (!taken.contains(x[i])) left.push_back(i);
  std::vector<Tensor> outputs;
  RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Chosen(context.inputs[0], left));
  RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Integers(context.node.attr<DType>("out_idx"), left));
  return outputs;
}
void ListDiff(AsyncContext& context, AsyncDone done) { done(DifferenceOf(context)); }

RIVULET_DYNAMIC_OP("Unique", Unique);
RIVULET_DYNAMIC_OP("UniqueV2", Unique);
RIVULET_DYNAMIC_OP("UniqueWithCounts", Unique);
RIVULET_DYNAMIC_OP("ListDiff", ListDiff);

}  // namespace
}  // namespace rivulet
