#include "dataflow/queues/accumulator.h"

#include <algorithm>
#include <cstring>

#include "engine/graph/graph.h"
#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

// Calls `visit(T())` for the type of gradients. float16 rounds after each addition, as in TensorFlow.
template <typename Visit>
void WithGradientType(DType dtype, Visit&& visit) {
  if (dtype == DType::kFloat16) return visit(float16());
  if (dtype == DType::kFloat64) return visit(double());
  visit(float());
}

void AddGradient(Tensor& sum, const Tensor& gradient) {
  WithGradientType(sum.dtype(), [&]<typename T>(T) {
    const auto to = sum.flat<T>();
    const auto from = gradient.flat<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = T(to[i] + from[i]);
  });
}

void DivideByCount(Tensor& sum, int count) {
  WithGradientType(sum.dtype(), [&]<typename T>(T) {
    const T divisor(static_cast<T>(static_cast<float>(count)));
    for (T& value : sum.flat<T>()) value = T(value / divisor);
  });
}

}  // namespace

StatusOr<std::shared_ptr<Accumulator>> Accumulator::Create(AccumulatorOptions options) {
  if (options.dtype != DType::kFloat16 && options.dtype != DType::kFloat32 && options.dtype != DType::kFloat64)
    return Unimplemented("ConditionalAccumulator '{}' is of {}; its gradients must be float16, float32 or float64",
                         options.name, Name(options.dtype));
  return std::shared_ptr<Accumulator>(new Accumulator(std::move(options)));
}

Status Accumulator::Gone() const {
  return Aborted("ConditionalAccumulator '{}': its container was reset", options_.name);
}

Status Accumulator::Apply(int64_t local_step, const Tensor& gradient) {
  if (gradient.empty() || gradient.dtype() != options_.dtype)
    return InvalidArgument("ConditionalAccumulator '{}': Type mismatch. Expected {}, got {}", options_.name,
                           Name(options_.dtype), Name(gradient.dtype()));
  {
    MutexLock lock(mutex_);
    if (abandoned_) return Gone();
    if (local_step < step_) return absl::OkStatus();
    const Shape& expected = count_ > 0 ? sum_.shape() : options_.shape;
    if (count_ > 0 ? gradient.shape() != expected : !Shape::Compatible(gradient.shape(), expected))
      return InvalidArgument("ConditionalAccumulator '{}': Shape mismatch: expected {}, got {}", options_.name,
                             expected.ToString(), gradient.shape().ToString());
    if (count_ == 0) {
      RIVULET_ASSIGN_OR_RETURN(
          MemoryCharge charge,
          MemoryCharge::Take(options_.memory, gradient.bytes(),
                             fmt::format("ConditionalAccumulator '{}': a gradient", options_.name)));
      // A copy: the run may reuse its values' memory.
      RIVULET_ASSIGN_OR_RETURN(sum_, Tensor::Create(gradient.dtype(), gradient.shape()));
      if (sum_.bytes() > 0) std::memcpy(sum_.data(), gradient.data(), sum_.bytes());
      sum_memory_ = std::move(charge);
    } else {
      AddGradient(sum_, gradient);
    }
    ++count_;
  }
  Serve();
  return absl::OkStatus();
}

bool Accumulator::TakeFirst(std::shared_ptr<Taker>& taker, Tensor& value) {
  if (takers_.empty() || count_ < takers_.front()->required) return false;
  taker = std::move(takers_.front());
  takers_.pop_front();
  value = std::exchange(sum_, Tensor());
  sum_memory_ = {};
  if (options_.mean) DivideByCount(value, count_);
  count_ = 0;
  ++step_;
  return true;
}

// Callbacks run without the lock, because they may call this accumulator again.
void Accumulator::Serve() {
  while (true) {
    std::shared_ptr<Taker> taker;
    Tensor value;
    {
      MutexLock lock(mutex_);
      if (!TakeFirst(taker, value)) return;
    }
    taker->wait.End();
    taker->done(std::move(value));
  }
}

bool Accumulator::Withdraw(const std::shared_ptr<Taker>& taker) {
  MutexLock lock(mutex_);
  const auto found = std::ranges::find(takers_, taker);
  if (found == takers_.end()) return false;
  takers_.erase(found);
  return true;
}

// A taker's callback is called by the event that removes it from the list: a gradient, its cancellation, or Abandon.
void Accumulator::Take(int required, const CancellationToken& cancel, TakeDone done) {
  if (required < 1)
    return done(InvalidArgument("ConditionalAccumulator '{}': Argument num_required must be positive, but was {}",
                                options_.name, required));
  auto taker = std::make_shared<Taker>();
  taker->required = required;
  taker->done = std::move(done);
  taker->wait = CancellableWait(cancel);
  bool gone = false;
  {
    MutexLock lock(mutex_);
    gone = abandoned_;
    if (!gone) takers_.push_back(taker);
  }
  if (gone) return taker->done(Gone());
  // Once it waits, another thread may answer it, which may destroy the owner of this accumulator.
  const std::shared_ptr<Accumulator> keep = shared_from_this();
  Serve();
  taker->wait.Register([weak = weak_from_this(), taker, name = options_.name] {
    const std::shared_ptr<Accumulator> self = weak.lock();
    if (self == nullptr || !self->Withdraw(taker)) return;
    taker->wait.End();
    taker->done(Cancelled("ConditionalAccumulator '{}': TakeGrad operation was cancelled", name));
    self->Serve();  // later takers may need fewer gradients
  });
}

void Accumulator::SetGlobalStep(int64_t step) {
  MutexLock lock(mutex_);
  step_ = step;
}

int Accumulator::count() const {
  MutexLock lock(mutex_);
  return count_;
}

size_t Accumulator::bytes() const {
  MutexLock lock(mutex_);
  return count_ == 0 ? 0 : sum_.bytes();
}

Status Accumulator::CheckHandle(const Node& handle) const {
  const bool mean = handle.attr<std::string>("reduction_type") == "MEAN";
  const auto described = [](DType dtype, const Shape& shape, bool is_mean) {
    return fmt::format("{}{} {}", Name(dtype), shape.ToString(), is_mean ? "MEAN" : "SUM");
  };
  if (handle.attr<DType>("dtype") == options_.dtype && handle.attr<Shape>("shape") == options_.shape &&
      mean == options_.mean)
    return absl::OkStatus();
  return InvalidArgument("ConditionalAccumulator '{}' is of {}, and '{}' says {}; give one of them another shared_name",
                         options_.name, described(options_.dtype, options_.shape, options_.mean), handle.name(),
                         described(handle.attr<DType>("dtype"), handle.attr<Shape>("shape"), mean));
}

void Accumulator::Abandon() {
  std::list<std::shared_ptr<Taker>> takers;
  {
    MutexLock lock(mutex_);
    abandoned_ = true;
    takers.swap(takers_);
    sum_ = Tensor();
    sum_memory_ = {};
    count_ = 0;
  }
  for (const std::shared_ptr<Taker>& taker : takers) {
    taker->wait.End();
    taker->done(Gone());
  }
}

}  // namespace rivulet
