#include "tests/dataflow/session/gates.h"

#include <atomic>
#include <map>
#include <vector>

#include "dataflow/resources/async_op.h"
#include "dataflow/session/thread_pool.h"
#include "engine/base/mutex.h"
#include "engine/graph/op.h"

namespace rivulet::testing {
namespace {

struct Gate {
  bool open = false;
  std::string thread;
  std::map<int, AsyncDone> waiting;  // with what they pass on
  std::map<int, Tensor> values;
};

Mutex mutex;
CondVar changed;
int last_id = 0;
std::map<std::string, Gate>& Gates() {
  static auto* const gates = new std::map<std::string, Gate>();
  return *gates;
}

void RunGate(AsyncContext& context, AsyncDone done) {
  const std::string name = context.node.attr<std::string>("gate");
  int id = 0;
  {
    MutexLock lock(mutex);
    Gate& gate = Gates()[name];
    gate.thread = std::string(ThreadPool::Current());
    if (!gate.open) {
      id = ++last_id;
      gate.waiting[id] = done;
      gate.values[id] = context.inputs[0];
      changed.NotifyAll();
    }
  }
  if (id == 0) return done(std::vector{context.inputs[0]});
  const auto give_up = [name, id] {
    AsyncDone waiting;
    {
      MutexLock lock(mutex);
      Gate& gate = Gates()[name];
      if (!gate.waiting.contains(id)) return;
      waiting = std::move(gate.waiting[id]);
      gate.waiting.erase(id);
    }
    waiting(Cancelled("the gate did not open"));
  };
  if (context.cancel.OnCancel(give_up) == 0 && context.cancel.cancelled()) give_up();
}

void RunOpen(AsyncContext& context, AsyncDone done) {
  OpenGate(context.node.attr<std::string>("gate"));
  done(std::vector{context.inputs[0]});
}

void RunBad(AsyncContext&, AsyncDone done) { done(std::vector{Tensor(DType::kInt8, Shape{1})}); }

class Counter : public Resource {
 public:
  std::string_view type() const override { return "TestCounter"; }
  std::atomic<int64_t> count{0};
};

StatusOr<std::shared_ptr<Resource>> MakeCounter(const ResourceContext&) { return std::make_shared<Counter>(); }

void RunCount(AsyncContext& context, AsyncDone done) {
  done(std::vector{Tensor::Scalar<int64_t>(++static_cast<Counter&>(*context.resources[0]).count)});
}

Status SameShape(InferenceContext& c) {
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}
Status ScalarShape(InferenceContext& c) {
  c.set_output(0, Shape{});
  return absl::OkStatus();
}

#define GATE_OP(name)                \
  RIVULET_OP(name)                   \
      .Input("x: T")                 \
      .Output("y: T")                \
      .Attr("T: type")               \
      .Attr("gate: string = ''")     \
      .Stateful()                    \
      .Shape(SameShape)              \
      .NotDifferentiable("a test's") \
      .Doc("See gates.h.")
GATE_OP("TestGate");
GATE_OP("TestOpen");
GATE_OP("TestBad");
RIVULET_OP("TestCounter")
    .Output("counter: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Shape(ScalarShape)
    .NotDifferentiable("a test's")
    .Doc("See gates.h.");
RIVULET_OP("TestCount")
    .Input("counter: resource")
    .Output("count: int64")
    .Stateful()
    .Shape(ScalarShape)
    .NotDifferentiable("a test's")
    .Doc("See gates.h.");
RIVULET_ASYNC_OP("TestGate", RunGate);
RIVULET_ASYNC_OP("TestOpen", RunOpen);
RIVULET_ASYNC_OP("TestBad", RunBad);
RIVULET_ASYNC_OP("TestCount", RunCount);
RIVULET_RESOURCE_OP("TestCounter", "TestCounter", MakeCounter);

}  // namespace

void OpenGate(const std::string& name) {
  std::vector<std::pair<AsyncDone, Tensor>> waiting;
  {
    MutexLock lock(mutex);
    Gate& gate = Gates()[name];
    gate.open = true;
    for (auto& [id, done] : gate.waiting) waiting.emplace_back(std::move(done), gate.values[id]);
    gate.waiting.clear();
  }
  for (auto& [done, value] : waiting) done(std::vector{value});
}

void AwaitGate(const std::string& name, int waiting) {
  MutexLock lock(mutex);
  while (static_cast<int>(Gates()[name].waiting.size()) < waiting) changed.Wait(mutex);
}

std::string GateThread(const std::string& name) {
  MutexLock lock(mutex);
  return Gates()[name].thread;
}

}  // namespace rivulet::testing
