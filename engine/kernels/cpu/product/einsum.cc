// Einsum. When it is prepared, the equation becomes a list of steps: a label in only one operand is summed first; then
// pairs are contracted, in the order of least cost, each as a batch of matrix products (or element by element if
// nothing is summed). Operands are read in place if their strides allow it, and packed otherwise.
#include "engine/ops/einsum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "engine/kernels/cpu/product/batch_product.h"
#include "engine/kernels/cpu/reduction/strided_reduce.h"
#include "engine/program/memory_plan.h"

namespace rivulet {
namespace {

using Labels = std::vector<int>;
constexpr size_t kExhaustiveOperands = 5;  // for at most so many, all orders are compared

struct Place {
  enum class Base { kInput, kScratch, kOutput };
  Base base = Base::kInput;
  size_t at = 0;  // index of the input, or byte offset
  std::byte* In(const KernelContext& context) const {
    if (base == Base::kInput) return context.inputs[at];
    return base == Base::kOutput ? context.outputs[0] : context.scratch + at;
  }
};

// A BatchProduct of any type.
class Product {
 public:
  virtual ~Product() = default;
  virtual size_t scratch_bytes() const = 0;
  virtual const char* implementation() const = 0;
  virtual std::unique_ptr<KernelState> NewState() const = 0;
  virtual Status Run(const std::byte* a, const std::byte* b, std::byte* c, std::byte* scratch,
                     KernelState* state) const = 0;
};

template <typename T>
class ProductOf final : public Product {
 public:
  ProductOf(const ProductShape& shape, const KernelPolicy& policy) : product_(BatchProduct<T>::Plan(shape, policy)) {}
  size_t scratch_bytes() const override { return product_.scratch_bytes(); }
  const char* implementation() const override { return product_.implementation(); }
  std::unique_ptr<KernelState> NewState() const override { return product_.NewState(); }
  Status Run(const std::byte* a, const std::byte* b, std::byte* c, std::byte* scratch,
             KernelState* state) const override {
    return product_.Run(reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), reinterpret_cast<T*>(c), scratch,
                        state);
  }

 private:
  BatchProduct<T> product_;
};

// Strides count elements.
template <typename T>
void CopyRow(const std::byte* in, int64_t in_stride, std::byte* out, int64_t out_stride, int64_t count) {
  const T* from = reinterpret_cast<const T*>(in);
  T* to = reinterpret_cast<T*>(out);
  if (out_stride == 1 && in_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * out_stride] = from[i * in_stride];
  }
}

template <typename T>
T Times(T x, T y) {
  if constexpr (std::is_integral_v<T>) {  // wraps around
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) * static_cast<U>(y));
  } else {
    return x * y;
  }
}

template <typename T>
void MultiplyRow(const std::byte* x, int64_t sa, const std::byte* y, int64_t sb, std::byte* out, int64_t so,
                 int64_t count) {
  const T *a = reinterpret_cast<const T*>(x), *b = reinterpret_cast<const T*>(y);
  T* to = reinterpret_cast<T*>(out);
  if (so == 1 && sa == 1 && sb == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = Times(a[i], b[i]);
  } else if (so == 1 && sa == 0 && sb == 1) {
    const T first = *a;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = Times(first, b[i]);
  } else if (so == 1 && sa == 1 && sb == 0) {
    const T second = *b;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = Times(a[i], second);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * so] = Times(a[i * sa], b[i * sb]);
  }
}

// Facts about an element type for planner and kernel.
struct ElementType {
  size_t size;
  const ReductionLoops& (*sums)();
  void (*copy_row)(const std::byte* in, int64_t in_stride, std::byte* out, int64_t out_stride, int64_t count);
  void (*multiply_row)(const std::byte* a, int64_t a_stride, const std::byte* b, int64_t b_stride, std::byte* out,
                       int64_t out_stride, int64_t count);
  std::shared_ptr<const Product> (*product)(const ProductShape& shape, const KernelPolicy& policy);
};

template <typename T>
constexpr ElementType kElementType = {
    sizeof(T), SumLoops<T>, CopyRow<T>, MultiplyRow<T>,
    [](const ProductShape& shape, const KernelPolicy& policy) -> std::shared_ptr<const Product> {
      return std::make_shared<ProductOf<T>>(shape, policy);
    }};

// A tensor as labelled axes with strides; labels are distinct.
struct Term {
  Place place;
  Labels labels;
  std::vector<int64_t> strides;
  int64_t StrideOf(int label) const {  // 0 for a missing label
    const auto found = std::find(labels.begin(), labels.end(), label);
    return found == labels.end() ? 0 : strides[static_cast<size_t>(found - labels.begin())];
  }
  bool Has(int label) const { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
};

struct Step {
  enum class Kind { kCopy, kSum, kMultiply, kProduct };
  Kind kind = Kind::kCopy;
  Place from, second, to;
  size_t clear_bytes = 0;  // of the result, which is zeroed first
  StridedWalk<2> copy;
  ReductionPlan sum;
  StridedWalk<3> walk;  // over the elements of a multiplication, or the matrices of a product: result, from, second
  std::shared_ptr<const Product> product;
  size_t scratch = 0;  // offset of the product's scratch
};

// One KernelState per product.
class EinsumState final : public KernelState {
 public:
  std::vector<std::unique_ptr<KernelState>> steps;
};

class EinsumKernel final : public Kernel {
 public:
  EinsumKernel(std::vector<Step> steps, const ElementType& type) : steps_(std::move(steps)), type_(type) {}
  Status Run(const KernelContext& context) const override {
    const auto* state = static_cast<const EinsumState*>(context.state);
    const auto size = static_cast<int64_t>(type_.size);
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      const std::byte* a = step.from.In(context);
      std::byte* out = step.to.In(context);
      if (step.clear_bytes > 0) std::memset(out, 0, step.clear_bytes);
      switch (step.kind) {
        case Step::Kind::kCopy:
          step.copy.ForEachRow(
              [&](const std::array<int64_t, 2>& at, const std::array<int64_t, 2>& stride, int64_t count) {
                type_.copy_row(a + at[1] * size, stride[1], out + at[0] * size, stride[0], count);
              });
          break;
        case Step::Kind::kSum:
          ReduceStrided(step.sum, type_.sums(), a, out);
          break;
        case Step::Kind::kMultiply: {
          const std::byte* b = step.second.In(context);
          step.walk.ForEachRow(
              [&](const std::array<int64_t, 3>& at, const std::array<int64_t, 3>& stride, int64_t count) {
                type_.multiply_row(a + at[1] * size, stride[1], b + at[2] * size, stride[2], out + at[0] * size,
                                   stride[0], count);
              });
          break;
        }
        case Step::Kind::kProduct: {
          Status status;
          const std::byte* b = step.second.In(context);
          step.walk.ForEachRow(
              [&](const std::array<int64_t, 3>& at, const std::array<int64_t, 3>& stride, int64_t count) {
                for (int64_t j = 0; j < count && status.ok(); ++j)
                  status = step.product->Run(a + (at[1] + j * stride[1]) * size, b + (at[2] + j * stride[2]) * size,
                                             out + (at[0] + j * stride[0]) * size, context.scratch + step.scratch,
                                             state == nullptr ? nullptr : state->steps[i].get());
              });
          RIVULET_RETURN_IF_ERROR(status);
          break;
        }
      }
    }
    return absl::OkStatus();
  }
  std::unique_ptr<KernelState> NewState() const override {
    auto state = std::make_unique<EinsumState>();
    for (const Step& step : steps_)
      state->steps.push_back(step.product == nullptr ? nullptr : step.product->NewState());
    return state;
  }

 private:
  std::vector<Step> steps_;
  const ElementType& type_;
};

// Finds the order of contractions, given all labels of each term: pairs of indices into a list, from which both are
// removed and to whose end the result is appended.
class OrderSearch {
 public:
  OrderSearch(const std::vector<int64_t>& sizes, const Labels& output) : sizes_(sizes), output_(output) {}

  std::vector<std::pair<size_t, size_t>> Find(std::vector<Labels> terms) {
    best_cost_ = std::numeric_limits<double>::infinity();
    if (terms.size() <= kExhaustiveOperands) {
      Exhaust(terms, 0);
      return best_;
    }
    std::vector<std::pair<size_t, size_t>> order;
    while (terms.size() > 1) {
      std::pair<size_t, size_t> cheapest;
      double least = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < terms.size(); ++i) {
        for (size_t j = i + 1; j < terms.size(); ++j) {
          // First the growth of memory, then the cost.
          const double growth = Elements(Result(terms, i, j)) - Elements(terms[i]) - Elements(terms[j]);
          const double cost = growth + 1e-3 * Cost(terms, i, j);
          if (cost < least) {
            least = cost;
            cheapest = {i, j};
          }
        }
      }
      order.push_back(cheapest);
      terms = After(terms, cheapest.first, cheapest.second);
    }
    return order;
  }

 private:
  static Labels Union(const Labels& a, const Labels& b) {
    Labels both = a;
    for (int label : b)
      if (std::find(a.begin(), a.end(), label) == a.end()) both.push_back(label);
    return both;
  }
  double Elements(const Labels& labels) const {
    double product = 1;
    for (int label : labels) product *= static_cast<double>(sizes_[static_cast<size_t>(label)]);
    return product;
  }
  double Cost(const std::vector<Labels>& terms, size_t i, size_t j) const {
    return Elements(Union(terms[i], terms[j]));
  }
  Labels Result(const std::vector<Labels>& terms, size_t i, size_t j) const {
    Labels result;
    for (int label : Union(terms[i], terms[j])) {
      bool needed = std::find(output_.begin(), output_.end(), label) != output_.end();
      for (size_t other = 0; other < terms.size() && !needed; ++other)
        needed = other != i && other != j &&
                 std::find(terms[other].begin(), terms[other].end(), label) != terms[other].end();
      if (needed) result.push_back(label);
    }
    return result;
  }
  std::vector<Labels> After(const std::vector<Labels>& terms, size_t i, size_t j) const {
    std::vector<Labels> after;
    for (size_t other = 0; other < terms.size(); ++other)
      if (other != i && other != j) after.push_back(terms[other]);
    after.push_back(Result(terms, i, j));
    return after;
  }
  void Exhaust(const std::vector<Labels>& terms, double cost) {
    if (cost >= best_cost_) return;  // the first of equals is kept
    if (terms.size() <= 1) {
      best_cost_ = cost;
      best_ = current_;
      return;
    }
    for (size_t i = 0; i < terms.size(); ++i) {
      for (size_t j = i + 1; j < terms.size(); ++j) {
        current_.emplace_back(i, j);
        Exhaust(After(terms, i, j), cost + Cost(terms, i, j));
        current_.pop_back();
      }
    }
  }

  const std::vector<int64_t>& sizes_;
  const Labels& output_;
  double best_cost_ = 0;
  std::vector<std::pair<size_t, size_t>> best_, current_;
};

class Planner {
 public:
  Planner(const NodeView& node, const EinsumLabels& labels, const ElementType& type, const KernelPolicy& policy)
      : node_(node), sizes_(labels.sizes), type_(type), policy_(policy) {
    for (int label : labels.output)
      if (SizeOf(label) != 1) output_.push_back(label);
    for (size_t i = 0; i < labels.inputs.size(); ++i) terms_.push_back(Read(i, labels.inputs[i]));
  }

  StatusOr<Prepared> Run() {
    Prepared prepared;
    prepared.implementation = "einsum";
    const size_t output_bytes = static_cast<size_t>(node_.outputs[0].shape.elements()) * type_.size;
    const bool empty = std::any_of(sizes_.begin(), sizes_.end(), [](int64_t size) { return size == 0; });
    if (empty) {  // sums over no elements
      if (output_bytes > 0) {
        Step zeros;
        zeros.to.base = Place::Base::kOutput;
        zeros.clear_bytes = output_bytes;
        zeros.copy.axes = 1;  // without elements
        steps_.push_back(std::move(zeros));
      }
    } else {
      RIVULET_RETURN_IF_ERROR(Plan(output_bytes));
    }
    for (const Step& step : steps_)
      if (step.kind == Step::Kind::kProduct)
        prepared.implementation = std::string("einsum ") + step.product->implementation();
    prepared.scratch_bytes = scratch_;
    prepared.flops = flops_;
    prepared.kernel = std::make_unique<EinsumKernel>(std::move(steps_), type_);
    return prepared;
  }

 private:
  int64_t SizeOf(int label) const { return sizes_[static_cast<size_t>(label)]; }

  // Axes of size 1 are omitted, which broadcasts them for larger
  // labels. A repeated label traverses both axes at once.
  Term Read(size_t input, const Labels& axes) const {
    Term term;
    term.place.at = input;
    const Shape& shape = node_.inputs[input].shape;
    const std::vector<int64_t> strides = RowMajorStrides(shape);
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (shape.dim(static_cast<int>(axis)) == 1) continue;
      const auto found = std::find(term.labels.begin(), term.labels.end(), axes[axis]);
      if (found != term.labels.end()) {
        term.strides[static_cast<size_t>(found - term.labels.begin())] += strides[axis];
        continue;
      }
      term.labels.push_back(axes[axis]);
      term.strides.push_back(strides[axis]);
    }
    return term;
  }

  bool InOutput(int label) const { return std::find(output_.begin(), output_.end(), label) != output_.end(); }

  StatusOr<int64_t> Elements(const Labels& labels) const {
    int64_t product = 1;
    for (int label : labels)
      if (__builtin_mul_overflow(product, SizeOf(label), &product) || product > (int64_t{1} << 40))
        return ResourceExhausted("an intermediate result of this Einsum has more than 2^40 elements");
    return product;
  }

  StatusOr<Place> Scratch(int64_t elements) {
    Place place;
    place.base = Place::Base::kScratch;
    place.at = scratch_;
    scratch_ += RoundUp64(static_cast<size_t>(elements) * type_.size);
    if (scratch_ > size_t{1} << 42)
      return ResourceExhausted("this Einsum would need more than 4 TiB of scratch memory");
    return place;
  }

  // A term with these labels, row-major in scratch memory.
  StatusOr<Term> NewTerm(Labels labels) {
    Term term;
    RIVULET_ASSIGN_OR_RETURN(const int64_t elements, Elements(labels));
    RIVULET_ASSIGN_OR_RETURN(term.place, Scratch(elements));
    term.labels = std::move(labels);
    term.strides = RowMajor(term.labels);
    return term;
  }
  std::vector<int64_t> RowMajor(const Labels& labels) const { return RowMajorStrides(Shape(Dims(labels))); }
  std::vector<int64_t> Dims(const Labels& labels) const {
    std::vector<int64_t> dims;
    for (int label : labels) dims.push_back(SizeOf(label));
    return dims;
  }
  std::vector<int64_t> StridesOf(const Term& term, const Labels& labels) const {
    std::vector<int64_t> strides;
    for (int label : labels) strides.push_back(term.StrideOf(label));
    return strides;
  }

  Status Plan(size_t output_bytes) {
    for (size_t i = 0; i < terms_.size(); ++i) RIVULET_RETURN_IF_ERROR(SumLonely(i));
    std::vector<Labels> labels;
    for (const Term& term : terms_) labels.push_back(term.labels);
    for (const auto& [i, j] : OrderSearch(sizes_, output_).Find(labels)) {
      const Term a = terms_[i], b = terms_[j];
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(j));
      terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(i));
      RIVULET_ASSIGN_OR_RETURN(Term result, Contract(a, b));
      terms_.push_back(std::move(result));
    }
    const Term& last = terms_.front();
    if (last.place.base == Place::Base::kOutput) return absl::OkStatus();
    return CopyToOutput(last, output_bytes);
  }

  // Whether labels in the output are distinct, so that a step can write it directly.
  bool PlainOutput() const {
    Labels sorted = output_;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  }

  Status CopyToOutput(const Term& term, size_t output_bytes) {
    Term out;  // repeated labels share an axis along the diagonal
    const std::vector<int64_t> strides = RowMajor(output_);
    for (size_t axis = 0; axis < output_.size(); ++axis) {
      const auto found = std::find(out.labels.begin(), out.labels.end(), output_[axis]);
      if (found != out.labels.end()) {
        out.strides[static_cast<size_t>(found - out.labels.begin())] += strides[axis];
      } else {
        out.labels.push_back(output_[axis]);
        out.strides.push_back(strides[axis]);
      }
    }
    Step step;
    step.from = term.place;
    step.to.base = Place::Base::kOutput;
    if (!PlainOutput()) step.clear_bytes = output_bytes;
    RIVULET_ASSIGN_OR_RETURN(step.copy, MakeWalk<2>(Dims(out.labels), {out.strides, StridesOf(term, out.labels)}));
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }

  Status SumLonely(size_t index) {
    Term& term = terms_[index];
    std::vector<bool> lonely;
    Labels kept;
    for (int label : term.labels) {
      bool elsewhere = InOutput(label);
      for (size_t other = 0; other < terms_.size(); ++other)
        elsewhere = elsewhere || (other != index && terms_[other].Has(label));
      lonely.push_back(!elsewhere);
      if (elsewhere) kept.push_back(label);
    }
    if (kept.size() == term.labels.size()) return absl::OkStatus();
    Step step;
    step.kind = Step::Kind::kSum;
    step.from = term.place;
    RIVULET_ASSIGN_OR_RETURN(step.sum, PlanReduction(Dims(term.labels), term.strides, lonely));
    RIVULET_ASSIGN_OR_RETURN(const int64_t elements, Elements(term.labels));
    flops_ += static_cast<double>(elements);
    Term summed;
    if (terms_.size() == 1 && kept == output_ && PlainOutput()) {
      summed.place.base = Place::Base::kOutput;
    } else {
      RIVULET_ASSIGN_OR_RETURN(summed, NewTerm(kept));
    }
    step.to = summed.place;
    term = std::move(summed);
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }

  // Size and stride of `labels` as one axis of `term`; nullopt if they cannot be merged.
  struct Axis {
    int64_t size = 1, stride = 1;
  };
  std::optional<Axis> Merged(const Term& term, const Labels& labels) const {
    Axis axis;
    for (size_t i = labels.size(); i-- > 0;) {
      const int64_t stride = term.StrideOf(labels[i]);
      if (i + 1 == labels.size())
        axis.stride = stride;
      else if (stride != axis.stride * axis.size)
        return std::nullopt;
      axis.size *= SizeOf(labels[i]);
    }
    return axis;
  }

  // A possible product: roles, orders of the labels, and operands to pack.
  struct Candidate {
    const Term* left = nullptr;
    const Term* right = nullptr;
    Labels batch, rows, columns, depth;
    bool pack_left = false, pack_right = false, direct = false;
    ProductShape shape;
    double cost = 0;
  };

  Labels InOrderOf(Labels labels, const Term& term) const {
    std::stable_sort(labels.begin(), labels.end(), [&](int a, int b) { return term.StrideOf(a) > term.StrideOf(b); });
    return labels;
  }
  Labels InOrderOf(Labels labels, const Labels& order) const {
    std::stable_sort(labels.begin(), labels.end(), [&](int a, int b) {
      return std::find(order.begin(), order.end(), a) < std::find(order.begin(), order.end(), b);
    });
    return labels;
  }

  double Count(const Labels& labels) const {
    double count = 1;
    for (int label : labels) count *= static_cast<double>(SizeOf(label));
    return count;
  }

  void Assess(Candidate& c, bool last) const {
    const auto rows = Merged(*c.left, c.rows), left_depth = Merged(*c.left, c.depth);
    c.pack_left = !rows || !left_depth;
    const auto columns = Merged(*c.right, c.columns), right_depth = Merged(*c.right, c.depth);
    int64_t m = 1, n = 1, k = 1;
    for (int label : c.rows) m *= SizeOf(label);
    for (int label : c.columns) n *= SizeOf(label);
    for (int label : c.depth) k *= SizeOf(label);
    ProductShape& s = c.shape;
    s = {m, n, k, k, 1, false};
    if (!c.pack_left) {
      s.a_row = c.rows.empty() ? k : rows->stride;
      s.a_k = left_depth->stride;
    }
    c.pack_right = true;
    if (columns && right_depth) {
      const bool plain = (n == 1 || columns->stride == 1) && right_depth->stride == n;
      const bool transposed = right_depth->stride == 1 && (n == 1 || columns->stride == k);
      c.pack_right = !plain && !transposed;
      s.b_transposed = !plain && transposed;
    }
    Labels natural = c.batch;
    natural.insert(natural.end(), c.rows.begin(), c.rows.end());
    natural.insert(natural.end(), c.columns.begin(), c.columns.end());
    c.direct = last && PlainOutput() && natural == output_;
    const double batch = Count(c.batch), md = static_cast<double>(m), nd = static_cast<double>(n),
                 kd = static_cast<double>(k);
    c.cost = (c.pack_left ? batch * md * kd : 0) + (c.pack_right ? batch * nd * kd : 0) +
             (c.direct || !last ? 0 : 2 * batch * md * nd);
    if (s.b_transposed && m > 16) c.cost += 0.5 * batch * nd * kd;
    if (n < 8 && m > n) c.cost += batch * md * nd * kd;  // columns are vectorised
  }

  StatusOr<Term> Contract(const Term& a, const Term& b) {
    const bool last = terms_.empty();
    Labels shared, depth, only_a, only_b;
    for (int label : a.labels) {
      if (!b.Has(label)) {
        only_a.push_back(label);
        continue;
      }
      bool needed = InOutput(label);
      for (const Term& other : terms_) needed = needed || other.Has(label);
      (needed ? shared : depth).push_back(label);
    }
    for (int label : b.labels)
      if (!a.Has(label)) only_b.push_back(label);
    if (depth.empty()) return Multiply(a, b, last);
    std::vector<Candidate> candidates;
    for (bool swapped : {false, true}) {
      const Term &left = swapped ? b : a, &right = swapped ? a : b;
      const Labels &free_left = swapped ? only_b : only_a, &free_right = swapped ? only_a : only_b;
      for (bool as_output : {true, false}) {
        if (as_output && !last) continue;
        for (bool depth_of_right : {true, false}) {
          Candidate c;
          c.left = &left;
          c.right = &right;
          c.batch = as_output ? InOrderOf(shared, output_) : InOrderOf(shared, left);
          c.rows = as_output ? InOrderOf(free_left, output_) : InOrderOf(free_left, left);
          c.columns = as_output ? InOrderOf(free_right, output_) : InOrderOf(free_right, right);
          c.depth = InOrderOf(depth, depth_of_right ? right : left);
          Assess(c, last);
          candidates.push_back(std::move(c));
        }
      }
    }
    return Emit(*std::min_element(candidates.begin(), candidates.end(),
                                  [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; }));
  }

  StatusOr<Term> Packed(const Term& term, const Labels& batch, const Labels& outer, const Labels& inner) {
    Labels order;
    for (const Labels* part : {&batch, &outer, &inner})
      for (int label : *part)
        if (term.Has(label)) order.push_back(label);
    RIVULET_ASSIGN_OR_RETURN(Term packed, NewTerm(order));
    Step step;
    step.from = term.place;
    step.to = packed.place;
    RIVULET_ASSIGN_OR_RETURN(step.copy, MakeWalk<2>(Dims(order), {packed.strides, StridesOf(term, order)}));
    steps_.push_back(std::move(step));
    return packed;
  }

  StatusOr<Term> Emit(const Candidate& c) {
    Term left = *c.left, right = *c.right;
    if (c.pack_left) {
      RIVULET_ASSIGN_OR_RETURN(left, Packed(left, c.batch, c.rows, c.depth));
    }
    if (c.pack_right) {
      RIVULET_ASSIGN_OR_RETURN(right, Packed(right, c.batch, c.depth, c.columns));
    }
    Labels natural = c.batch;
    natural.insert(natural.end(), c.rows.begin(), c.rows.end());
    natural.insert(natural.end(), c.columns.begin(), c.columns.end());
    Term result;
    RIVULET_ASSIGN_OR_RETURN(result, c.direct ? StatusOr<Term>(OutputTerm()) : NewTerm(natural));
    Step step;
    step.kind = Step::Kind::kProduct;
    step.from = left.place;
    step.second = right.place;
    step.to = result.place;
    RIVULET_ASSIGN_OR_RETURN(
        step.walk,
        MakeWalk<3>(Dims(c.batch), {StridesOf(result, c.batch), StridesOf(left, c.batch), StridesOf(right, c.batch)}));
    step.product = type_.product(c.shape, policy_);
    const size_t scratch_bytes = step.product->scratch_bytes();
    RIVULET_ASSIGN_OR_RETURN(const Place scratch,
                             Scratch(static_cast<int64_t>((scratch_bytes + type_.size - 1) / type_.size)));
    step.scratch = scratch.at;
    flops_ += Count(c.batch) * c.shape.flops();
    steps_.push_back(std::move(step));
    return result;
  }

  Term OutputTerm() const {
    Term term;
    term.place.base = Place::Base::kOutput;
    term.labels = output_;
    term.strides = RowMajor(output_);
    return term;
  }

  // If nothing is summed: element by element, with the smaller operand repeated.
  StatusOr<Term> Multiply(const Term& a, const Term& b, bool last) {
    Labels labels = a.labels;
    for (int label : b.labels)
      if (!a.Has(label)) labels.push_back(label);
    const bool direct = last && PlainOutput();
    Term result;
    RIVULET_ASSIGN_OR_RETURN(result, direct ? StatusOr<Term>(OutputTerm()) : NewTerm(labels));
    Step step;
    step.kind = Step::Kind::kMultiply;
    step.from = a.place;
    step.second = b.place;
    step.to = result.place;
    RIVULET_ASSIGN_OR_RETURN(step.walk, MakeWalk<3>(Dims(result.labels), {result.strides, StridesOf(a, result.labels),
                                                                          StridesOf(b, result.labels)}));
    flops_ += Count(labels);
    steps_.push_back(std::move(step));
    return result;
  }

  const NodeView& node_;
  const std::vector<int64_t>& sizes_;
  const ElementType& type_;
  const KernelPolicy& policy_;
  Labels output_;
  std::vector<Term> terms_;
  std::vector<Step> steps_;
  size_t scratch_ = 0;
  double flops_ = 0;
};

StatusOr<Prepared> PrepareOf(const NodeView& node, const ElementType& type, const KernelPolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(const auto equation,
                           EinsumEquation::Parse(node.attr<std::string>("equation"), node.inputs.size()));
  std::vector<Shape> shapes;
  for (const TensorSpec& input : node.inputs) shapes.push_back(input.shape);
  RIVULET_ASSIGN_OR_RETURN(EinsumLabels labels, ResolveEinsum(equation, shapes));
  for (int64_t& size : labels.sizes) size = size == kUnknownDim ? 1 : size;  // letters that are missing in the equation
  return Planner(node, labels, type, policy).Run();
}

template <typename T>
StatusOr<Prepared> PrepareEinsum(const NodeView& node, const KernelPolicy& policy) {
  return PrepareOf(node, kElementType<T>, policy);
}

RIVULET_KERNEL("Einsum", Device::kCpu, float, PrepareEinsum<float>);
RIVULET_KERNEL("Einsum", Device::kCpu, double, PrepareEinsum<double>);
RIVULET_KERNEL("Einsum", Device::kCpu, int32_t, PrepareEinsum<int32_t>);
RIVULET_KERNEL("Einsum", Device::kCpu, int64_t, PrepareEinsum<int64_t>);

}  // namespace
}  // namespace rivulet
