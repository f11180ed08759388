// Elements that ops compute from their inputs' elements: constants, sizes, arithmetic, comparisons, reductions.
#include <algorithm>

#include "engine/graph/dimension_ops.h"
#include "engine/graph/symbolic_values.h"

namespace rivulet {
namespace {

using Value = std::optional<Dimension>;
using Values = std::vector<Value>;

Value TruthOf(bool value) { return Decided(value, !value); }

bool IsOneOf(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

class Computer {
 public:
  explicit Computer(const ElementRule& rule) : rule_(rule), op_(rule.node.type()), count_(rule.shape.elements()) {}

  MaybeElements Computed() const {
    if (op_ == "Const") return Constant();
    if (IsOneOf(op_, {"Shape", "Size", "Rank", "TensorListLength"})) return OfSizes();
    if (op_ == "Range") return Counted();
    if (op_ == "ZerosLike" || op_ == "OnesLike")
      return Values(static_cast<size_t>(count_), Dimension(op_ == "OnesLike" ? 1 : 0));
    if (op_ == "SelectV2" || op_ == "Select") return Selected();
    if (IsOneOf(op_, {"Sum", "Prod", "Max", "Min", "All", "Any"})) return Reduced();
    if (op_ == "Cumsum" || op_ == "Cumprod") return Cumulated();
    if (IsOneOf(op_, {"Neg", "Abs", "LogicalNot", "Square", "Cast", "Sign"})) return Unary();
    if (IsOneOf(op_, {"Add",      "AddV2",     "Sub",         "Mul",          "FloorDiv",   "Div",      "TruncateDiv",
                      "FloorMod", "Mod",       "TruncateMod", "Maximum",      "Minimum",    "Equal",    "NotEqual",
                      "Less",     "LessEqual", "Greater",     "GreaterEqual", "LogicalAnd", "LogicalOr"}))
      return Binary();
    return std::nullopt;
  }

 private:
  const Elements* In(size_t i) const { return i < rule_.inputs.size() ? rule_.inputs[i] : nullptr; }

  // The element of input i that is broadcast to element `flat` of the output; nullptr: unknown.
  const Dimension* Broadcast(size_t i, int64_t flat) const {
    const Elements* const source = In(i);
    if (source == nullptr || source->shape.rank() > rule_.shape.rank()) return nullptr;
    int64_t at = 0, scale = 1;
    for (int axis = rule_.shape.rank() - 1, own = source->shape.rank() - 1; own >= 0; --axis, --own) {
      const int64_t size = source->shape.dim(own), place = flat % rule_.shape.dim(axis);
      if (size != 1 && size != rule_.shape.dim(axis)) return nullptr;
      at += (size == 1 ? 0 : place) * scale;
      scale *= size;
      flat /= rule_.shape.dim(axis);
    }
    return &source->values[static_cast<size_t>(at)];
  }

  MaybeElements Constant() const {
    const Tensor* const value = rule_.node.FindAttr<Tensor>("value");
    if (value == nullptr || value->empty()) return std::nullopt;
    Values values;
    const auto read = [&](auto elements) {
      for (const auto element : elements) values.emplace_back(static_cast<int64_t>(element));
    };
    if (value->dtype() == DType::kInt32)
      read(value->flat<int32_t>());
    else if (value->dtype() == DType::kInt64)
      read(value->flat<int64_t>());
    else if (value->dtype() == DType::kBool)
      read(value->flat<bool>());
    else
      return std::nullopt;
    return values;
  }

  MaybeElements OfSizes() const {
    if (rule_.sizes == nullptr) return std::nullopt;
    const std::vector<Dimension>& sizes = *rule_.sizes;
    if (op_ == "Shape") return Values(sizes.begin(), sizes.end());
    if (op_ == "Rank") return Values{Dimension(static_cast<int64_t>(sizes.size()))};
    if (op_ == "TensorListLength") return sizes.empty() ? Values{std::nullopt} : Values{sizes[0]};
    Value product = Dimension(1);
    for (const Dimension& size : sizes)
      if (product) product = product->Times(size);
    return Values{product};
  }

  MaybeElements Counted() const {
    if (In(0) == nullptr || In(2) == nullptr) return std::nullopt;
    Values values;
    Value at = In(0)->values[0];
    for (int64_t i = 0; i < count_; ++i) {
      values.push_back(at);
      if (at) at = at->Plus(In(2)->values[0]);
    }
    return values;
  }

  MaybeElements Selected() const {
    Values values;
    for (int64_t flat = 0; flat < count_; ++flat) {
      const Dimension *const condition = Broadcast(0, flat), *const then = Broadcast(1, flat),
                             *const otherwise = Broadcast(2, flat);
      Value chosen;
      if (condition != nullptr && condition->IsNumber()) {
        const Dimension* const taken = condition->number() != 0 ? then : otherwise;
        if (taken != nullptr) chosen = *taken;
      } else if (then != nullptr && otherwise != nullptr && *then == *otherwise) {
        chosen = *then;
      }
      values.push_back(std::move(chosen));
    }
    return values;
  }

  MaybeElements Binary() const {
    Values values;
    for (int64_t flat = 0; flat < count_; ++flat) {
      const Dimension *const a = Broadcast(0, flat), *const b = Broadcast(1, flat);
      values.push_back(a == nullptr || b == nullptr ? std::nullopt : Combined(op_, *a, *b));
    }
    return values;
  }

  // For constants of another type, such as the limits of a range that a model casts from a float.
  MaybeElements CastConstant() const {
    const Node* from = rule_.node.input(0).node;
    while (from->type() == "Identity") from = from->input(0).node;
    const Tensor* const value = from->type() == "Const" ? from->FindAttr<Tensor>("value") : nullptr;
    if (value == nullptr || value->empty() || value->elements() != count_) return std::nullopt;
    Values values;
    const bool truth = rule_.node.outputs()[0].dtype == DType::kBool;
    const auto read = [&](auto elements) {
      for (const auto element : elements) {
        const auto wide = static_cast<double>(element);
        const bool fits = wide > -0x1p62 && wide < 0x1p62;
        values.push_back(!fits ? std::nullopt : truth ? TruthOf(wide != 0) : Value(static_cast<int64_t>(wide)));
      }
    };
    if (value->dtype() == DType::kFloat32)
      read(value->flat<float>());
    else if (value->dtype() == DType::kFloat64)
      read(value->flat<double>());
    else
      return std::nullopt;
    return values;
  }

  MaybeElements Unary() const {
    if (In(0) == nullptr) return op_ == "Cast" ? CastConstant() : std::nullopt;
    Values values;
    for (const Dimension& x : In(0)->values) {
      const Difference d = Between(x, 0);
      if (op_ == "Neg") {
        values.push_back(x.Times(-1));
      } else if (op_ == "Square") {
        values.push_back(x.Times(x));
      } else if (op_ == "LogicalNot") {
        values.push_back(x.IsNumber() ? TruthOf(x.number() == 0) : std::nullopt);
      } else if (op_ == "Cast") {  // to bool; other casts are moves
        values.push_back(Decided(d.AtLeast(1) || d.AtMost(-1), d.AtLeast(0) && d.AtMost(0)));
      } else if (op_ == "Sign") {
        values.push_back(d.AtLeast(1)                  ? Value(1)
                         : d.AtMost(-1)                ? Value(-1)
                         : d.AtLeast(0) && d.AtMost(0) ? Value(0)
                                                       : std::nullopt);
      } else {
        values.push_back(d.AtLeast(0) ? Value(x) : d.AtMost(0) ? x.Times(-1) : std::nullopt);
      }
    }
    return values;
  }

  std::string_view Step() const {
    if (op_ == "Sum" || op_ == "Cumsum") return "AddV2";
    if (op_ == "Prod" || op_ == "Cumprod") return "Mul";
    if (op_ == "Max") return "Maximum";
    if (op_ == "Min") return "Minimum";
    return op_ == "All" ? "LogicalAnd" : "LogicalOr";
  }

  // Over all axes, the usual case in shape arithmetic; or a vector over its axis.
  MaybeElements Reduced() const {
    if (In(0) == nullptr || In(1) == nullptr || count_ != 1) return std::nullopt;
    const Elements& x = *In(0);
    const bool all =
        x.shape.rank() <= 1 ? !In(1)->values.empty() : static_cast<int>(In(1)->values.size()) == x.shape.rank();
    if (!all) return x.values.size() == 1 ? MaybeElements(Values{x.values[0]}) : std::nullopt;
    Value result = Dimension(op_ == "Prod" || op_ == "All" ? 1 : 0);
    if (op_ == "Max" || op_ == "Min") {
      if (x.values.empty()) return std::nullopt;
      result = x.values[0];
    }
    for (const Dimension& value : x.values)
      if (result) result = Combined(Step(), *result, value);
    return Values{result};
  }

  MaybeElements Cumulated() const {
    if (In(0) == nullptr || rule_.shape.rank() != 1) return std::nullopt;
    const auto flag = [&](std::string_view name) {
      const bool* value = rule_.node.FindAttr<bool>(name);
      return value != nullptr && *value;
    };
    const bool reverse = flag("reverse"), exclusive = flag("exclusive");
    Values values(static_cast<size_t>(count_));
    Value total = Dimension(op_ == "Cumprod" ? 1 : 0);
    for (int64_t i = 0; i < count_; ++i) {
      const auto at = static_cast<size_t>(reverse ? count_ - 1 - i : i);
      if (exclusive) values[at] = total;
      if (total) total = Combined(Step(), *total, In(0)->values[at]);
      if (!exclusive) values[at] = total;
    }
    return values;
  }

  const ElementRule& rule_;
  std::string_view op_;
  int64_t count_;
};

}  // namespace

MaybeElements ComputedElements(const ElementRule& rule) { return Computer(rule).Computed(); }

}  // namespace rivulet
