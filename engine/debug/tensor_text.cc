#include "engine/debug/tensor_text.h"

#include <algorithm>
#include <cmath>

#include "engine/base/shown_text.h"
#include "engine/debug/statistics.h"
#include "engine/tensor/text.h"

namespace rivulet {
namespace {

constexpr int64_t kEdge = 3;
constexpr size_t kLineWidth = 100;

std::string ElementText(const TensorView& tensor, int64_t i, const TensorTextOptions& options) {
  if (tensor.dtype == DType::kVariant || tensor.dtype == DType::kResource) return "-";
  if (tensor.dtype == DType::kString)
    return fmt::format("'{}'", OneLine(Shortened(TextOfNumber(reinterpret_cast<const uint64_t*>(tensor.data)[i]))));
  std::string text;
  const double value = ElementOf(tensor, i);
  if (tensor.dtype == DType::kBool) {
    text = value != 0 ? "True" : "False";
  } else if (tensor.dtype == DType::kInt64) {
    text = fmt::format("{}", reinterpret_cast<const int64_t*>(tensor.data)[i]);
  } else if (tensor.dtype == DType::kUint64) {
    text = fmt::format("{}", reinterpret_cast<const uint64_t*>(tensor.data)[i]);
  } else if (std::isnan(value)) {
    text = "nan";  // regardless of its sign
  } else {
    text = fmt::format("{:.8g}", value);
  }
  if (options.highlight && value >= options.highlight->first && value <= options.highlight->second)
    return "*" + text + "*";
  return text;
}

class Writer {
 public:
  Writer(const TensorView& tensor, const TensorTextOptions& options) : tensor_(tensor), options_(options) {
    summarise_ = options.summarise_above > 0 && tensor.shape.elements() > options.summarise_above;
  }

  std::string Write() {
    if (tensor_.shape.rank() == 0) return ElementText(tensor_, 0, options_);
    Visit(0, 0, [&](int64_t element) { width_ = std::max(width_, ElementText(tensor_, element, options_).size()); });
    Axis(0, 0);
    return text_;
  }

 private:
  // Calls `visit` for positions along `axis`; -1 stands for those that are left out.
  template <typename Fn>
  void Positions(int axis, const Fn& visit) {
    const int64_t size = tensor_.shape.dim(axis);
    for (int64_t i = 0; i < size; ++i) {
      if (summarise_ && size > 2 * kEdge && i == kEdge) {
        visit(int64_t{-1});
        i = size - kEdge;
      }
      visit(i);
    }
  }

  template <typename Fn>
  void Visit(int axis, int64_t offset, const Fn& element) {
    if (axis == tensor_.shape.rank()) return element(offset);
    Positions(axis, [&](int64_t i) {
      if (i >= 0) Visit(axis + 1, offset * tensor_.shape.dim(axis) + i, element);
    });
  }

  void Axis(int axis, int64_t offset) {
    const bool innermost = axis + 1 == tensor_.shape.rank();
    text_ += '[';
    bool first = true;
    size_t column = static_cast<size_t>(axis) + 1;
    Positions(axis, [&](int64_t i) {
      if (innermost) {
        const std::string element =
            i < 0 ? "..." : ElementText(tensor_, offset * tensor_.shape.dim(axis) + i, options_);
        const std::string aligned = std::string(width_ - std::min(width_, element.size()), ' ') + element;
        if (!first && column + aligned.size() + 1 > kLineWidth) {
          Break(axis);
          column = static_cast<size_t>(axis) + 1;
        } else if (!first) {
          text_ += ' ';
          ++column;
        }
        text_ += aligned;
        column += aligned.size();
      } else {
        // A blank line between matrices, as NumPy has it.
        if (!first) text_ += std::string(static_cast<size_t>(tensor_.shape.rank() - axis - 2), '\n'), Break(axis);
        if (i < 0) {
          text_ += "...";
        } else {
          Axis(axis + 1, offset * tensor_.shape.dim(axis) + i);
        }
      }
      first = false;
    });
    text_ += ']';
  }

  void Break(int axis) { text_ += "\n" + std::string(static_cast<size_t>(axis) + 1, ' '); }

  const TensorView& tensor_;
  const TensorTextOptions& options_;
  bool summarise_ = false;
  size_t width_ = 0;
  std::string text_;
};

}  // namespace

std::string TensorText(const TensorView& tensor, const TensorTextOptions& options) {
  return Writer(tensor, options).Write();
}

}  // namespace rivulet
