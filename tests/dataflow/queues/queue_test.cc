// Queues: each test states which operations wait, and what they get in the end.
#include "dataflow/queues/queue.h"

#include <atomic>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What an operation was told, once it was.
struct Ending {
  std::optional<Status> status;
  std::vector<int64_t> values;
};

std::shared_ptr<Queue> MakeQueue(QueueOptions options = {}) {
  options.name = "q";
  options.component_types = {DType::kInt64};
  if (options.shapes.empty()) options.shapes = {Shape{}};
  if (options.shuffle) options.op = "RandomShuffleQueue";
  auto queue = Queue::Create(std::move(options));
  EXPECT_OK(queue.status());
  return *queue;
}

Queue::EnqueueDone Into(std::shared_ptr<Ending> ending) {
  return [ending](Status status) {
    EXPECT_FALSE(ending->status.has_value()) << "told twice";
    ending->status = status;
  };
}
Queue::DequeueDone ValuesInto(std::shared_ptr<Ending> ending) {
  return [ending](StatusOr<Queue::Tuple> tuple) {
    EXPECT_FALSE(ending->status.has_value()) << "told twice";
    ending->status = tuple.status();
    if (!tuple.ok()) return;
    const auto flat = (*tuple)[0].flat<int64_t>();
    ending->values.assign(flat.begin(), flat.end());
  };
}

std::shared_ptr<Ending> Enqueue(Queue& queue, int64_t value, const CancellationToken& cancel = {}) {
  auto ending = std::make_shared<Ending>();
  queue.Enqueue({Tensor::Scalar<int64_t>(value)}, cancel, Into(ending));
  return ending;
}
std::shared_ptr<Ending> EnqueueMany(Queue& queue, std::vector<int64_t> values, const CancellationToken& cancel = {}) {
  auto ending = std::make_shared<Ending>();
  queue.EnqueueMany({Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values))},
                    cancel, Into(ending));
  return ending;
}
std::shared_ptr<Ending> Dequeue(Queue& queue, const CancellationToken& cancel = {}) {
  auto ending = std::make_shared<Ending>();
  queue.Dequeue(cancel, ValuesInto(ending));
  return ending;
}
std::shared_ptr<Ending> DequeueMany(Queue& queue, int64_t n, bool up_to = false, const CancellationToken& cancel = {}) {
  auto ending = std::make_shared<Ending>();
  queue.DequeueMany(n, up_to, cancel, ValuesInto(ending));
  return ending;
}
std::shared_ptr<Ending> Close(Queue& queue, bool cancel_pending = false) {
  auto ending = std::make_shared<Ending>();
  queue.Close(cancel_pending, Into(ending));
  return ending;
}

bool Waits(const std::shared_ptr<Ending>& ending) { return !ending->status.has_value(); }
void ExpectDone(const std::shared_ptr<Ending>& ending) {
  ASSERT_TRUE(ending->status.has_value()) << "it waits";
  EXPECT_OK(*ending->status);
}

TEST(Queue, FullAndEmpty_MakeOperationsWaitInLine) {
  const auto queue = MakeQueue({.capacity = 2});
  ExpectDone(Enqueue(*queue, 1));
  ExpectDone(Enqueue(*queue, 2));
  const auto third = Enqueue(*queue, 3), fourth = Enqueue(*queue, 4);
  EXPECT_TRUE(Waits(third));
  EXPECT_EQ(queue->size(), 2);
  EXPECT_THAT(Dequeue(*queue)->values, ElementsAre(1));
  ExpectDone(third);
  EXPECT_TRUE(Waits(fourth));
  EXPECT_THAT(DequeueMany(*queue, 3)->values, ElementsAre(2, 3, 4));
  ExpectDone(fourth);
  const auto first_waiting = Dequeue(*queue), second_waiting = Dequeue(*queue);
  EXPECT_TRUE(Waits(first_waiting));
  ExpectDone(EnqueueMany(*queue, {5, 6, 7}));
  EXPECT_THAT(first_waiting->values, ElementsAre(5));
  EXPECT_THAT(second_waiting->values, ElementsAre(6));
  EXPECT_EQ(queue->size(), 1);
}

TEST(Queue, ManyMoreThanTheCapacity_PassThroughBitByBit) {
  const auto queue = MakeQueue({.capacity = 2});
  const auto all = EnqueueMany(*queue, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_TRUE(Waits(all));
  const auto taken = DequeueMany(*queue, 6);
  EXPECT_THAT(taken->values, ElementsAre(1, 2, 3, 4, 5, 6));
  ExpectDone(all);
  EXPECT_EQ(queue->size(), 1);
}

TEST(Queue, Close_AfterThoseThatWait) {
  const auto queue = MakeQueue({.capacity = 1});
  ExpectDone(Enqueue(*queue, 1));
  const auto waiting = Enqueue(*queue, 2);
  const auto closing = Close(*queue);
  EXPECT_TRUE(Waits(closing));
  EXPECT_FALSE(queue->closed());
  EXPECT_THAT(Dequeue(*queue)->values, ElementsAre(1));
  ExpectDone(waiting);
  ExpectDone(closing);
  EXPECT_TRUE(queue->closed());
  EXPECT_THAT(*Enqueue(*queue, 3)->status,
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("FIFOQueue 'q' is closed.")));
  EXPECT_THAT(*Close(*queue)->status,
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("Queue 'q' is already closed.")));
  EXPECT_THAT(Dequeue(*queue)->values, ElementsAre(2));
  EXPECT_THAT(*Dequeue(*queue)->status,
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("FIFOQueue 'q' is closed and has insufficient elements (requested 1, current size "
                                 "0)")));
}

TEST(Queue, CloseThatCancels_EndsEnqueuesThatWait) {
  const auto queue = MakeQueue({.capacity = 1});
  ExpectDone(Enqueue(*queue, 1));
  const auto waiting = Enqueue(*queue, 2);
  ExpectDone(Close(*queue, true));
  EXPECT_THAT(*waiting->status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("Enqueue operation was cancelled")));
  EXPECT_THAT(Dequeue(*queue)->values, ElementsAre(1));
  EXPECT_THAT(*Dequeue(*queue)->status, StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("closed")));
}

TEST(Queue, CloseBeforeAWaitingDequeue_GivesBackWhatItTook) {
  const auto queue = MakeQueue();
  ExpectDone(EnqueueMany(*queue, {1, 2}));
  const auto many = DequeueMany(*queue, 3), up_to = DequeueMany(*queue, 3, true);
  EXPECT_TRUE(Waits(many));
  EXPECT_EQ(queue->size(), 0);  // the first holds both
  ExpectDone(Close(*queue));
  EXPECT_THAT(*many->status, StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("requested 3, current size 2")));
  EXPECT_THAT(up_to->values, ElementsAre(1, 2));
  EXPECT_THAT(*DequeueMany(*queue, 2, true)->status, StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("closed")));
}

TEST(Queue, CancelledOperation_EndsAndLetsOthersPass) {
  const auto queue = MakeQueue({.capacity = 2});
  const CancellationToken cancel = CancellationToken::Create();
  ExpectDone(Enqueue(*queue, 1));
  const auto many = DequeueMany(*queue, 3, false, cancel);
  const auto behind = Dequeue(*queue);
  EXPECT_TRUE(Waits(behind));
  cancel.Cancel();
  EXPECT_THAT(*many->status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("Dequeue operation was cancelled")));
  EXPECT_THAT(behind->values, ElementsAre(1));
  ExpectDone(EnqueueMany(*queue, {2, 3}));
  // A token that was cancelled before.
  EXPECT_THAT(*Enqueue(*queue, 4, cancel)->status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
  EXPECT_EQ(queue->size(), 2);
}

TEST(Queue, Abandoned_EndsWhatWaitsAndWhatComes) {
  const auto queue = MakeQueue();
  const auto waiting = Dequeue(*queue);
  queue->Abandon();
  EXPECT_THAT(*waiting->status, StatusIs(absl::StatusCode::kAborted, HasSubstr("its container was reset")));
  EXPECT_THAT(*Enqueue(*queue, 1)->status, StatusIs(absl::StatusCode::kAborted, HasSubstr("reset")));
}

TEST(Queue, Shuffled_DrawsAsTensorFlowDoes) {
  // RandomShuffleQueueV2(capacity=20, min_after_dequeue=3, seed=5, seed2=9) of TensorFlow 2.21.
  const auto queue = MakeQueue({.capacity = 20, .shuffle = true, .min_after_dequeue = 3, .seed = 5, .seed2 = 9});
  ExpectDone(EnqueueMany(*queue, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  for (const int64_t expected : {2, 9, 5}) EXPECT_THAT(Dequeue(*queue)->values, ElementsAre(expected));
  EXPECT_THAT(DequeueMany(*queue, 4)->values, ElementsAre(10, 11, 6, 3));
  // Five are left; three of them stay until the queue is closed.
  const auto rest = DequeueMany(*queue, 4);
  EXPECT_TRUE(Waits(rest));
  ExpectDone(Close(*queue));
  EXPECT_THAT(rest->values, ElementsAre(7, 0, 1, 8));
  EXPECT_EQ(queue->size(), 1);
}

TEST(Queue, PaddedElements_AreAsLargeAsTheLargest) {
  const auto queue = MakeQueue({.shapes = {Shape{kUnknownDim}}, .padding = true});
  for (const auto& values : std::vector<std::vector<int64_t>>{{1}, {2, 3, 4}, {}}) {
    auto ending = std::make_shared<Ending>();
    queue->Enqueue({Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, std::span<const int64_t>(values))}, {},
                   Into(ending));
    ExpectDone(ending);
  }
  EXPECT_THAT(DequeueMany(*queue, 3)->values, ElementsAre(1, 0, 0, 2, 3, 4, 0, 0, 0));
}

TEST(Queue, WrongElements_AreRefused) {
  const auto queue = MakeQueue();
  auto ending = std::make_shared<Ending>();
  queue->Enqueue({Tensor::Scalar<float>(1)}, {}, Into(ending));
  EXPECT_THAT(*ending->status, StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("Type mismatch in tuple component 0. Expected int64, got float32")));
  ending = std::make_shared<Ending>();
  queue->Enqueue({Tensor::Of<int64_t>({2}, {1, 2})}, {}, Into(ending));
  EXPECT_THAT(*ending->status, StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("Shape mismatch in tuple component 0. Expected [], got [2]")));
  EXPECT_THAT(*DequeueMany(*queue, -1)->status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
  QueueOptions unknown;
  unknown.component_types = {DType::kInt64};
  const auto shapeless = *Queue::Create(unknown);
  EXPECT_THAT(*DequeueMany(*shapeless, 1)->status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("require the components to have specified")));
  unknown.capacity = 0;
  EXPECT_THAT(Queue::Create(unknown), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("capacity of 0")));
}

// Random operations beside a model: a list of values, and lines of operations that wait. What is told, to whom and in
// which order, is the same.
// 8 bytes of value and 128 of what a tensor takes beside them.
TEST(Queue, ElementsBeyondTheMemory_AreRefusedUntilOthersAreTaken) {
  const auto memory = std::make_shared<MemoryBudget>("the test's state", 3 * (8 + 128));
  {
    const auto queue = MakeQueue({.memory = memory});
    ExpectDone(EnqueueMany(*queue, {1, 2}));
    ExpectDone(Enqueue(*queue, 3));
    EXPECT_THAT(*Enqueue(*queue, 4)->status,
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("FIFOQueue 'q': an element needs 136 bytes")));
    EXPECT_THAT(Dequeue(*queue)->values, ElementsAre(1));
    EXPECT_EQ(memory->used(), 2u * 136);
    EXPECT_THAT(*EnqueueMany(*queue, {4, 5})->status, StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(memory->used(), 2u * 136);  // nothing of a refused one stays
    ExpectDone(Enqueue(*queue, 6));
    EXPECT_THAT(DequeueMany(*queue, 3)->values, ElementsAre(2, 3, 6));
    EXPECT_EQ(memory->used(), 0u);
  }
  {
    const auto queue = MakeQueue({.capacity = 1, .memory = memory});
    const CancellationToken cancel = CancellationToken::Create();
    ExpectDone(Enqueue(*queue, 1));
    const auto waits = Enqueue(*queue, 2, cancel);
    EXPECT_TRUE(Waits(waits));
    EXPECT_EQ(memory->used(), 2u * 136);  // it is held while it waits
    cancel.Cancel();
    EXPECT_EQ(memory->used(), 136u);
    queue->Abandon();
    EXPECT_EQ(memory->used(), 0u);
  }
}

TEST(Queue, RandomOperations_DoWhatTheModelDoes) {
  struct Operation {
    bool enqueue;
    std::vector<int64_t> values;  // to be put in, or taken so far
    int64_t wanted = 0;
    std::shared_ptr<Ending> real;
  };
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int64_t capacity = 1 + random() % 5;
    const auto queue = MakeQueue({.capacity = capacity});
    std::deque<int64_t> model;
    std::deque<Operation> putting, taking;
    const auto advance = [&] {
      for (bool changed = true; changed;) {
        changed = false;
        while (!putting.empty()) {
          Operation& front = putting.front();
          while (!front.values.empty() && static_cast<int64_t>(model.size()) < capacity) {
            model.push_back(front.values.front());
            front.values.erase(front.values.begin());
            changed = true;
          }
          if (!front.values.empty()) break;
          ExpectDone(front.real);
          putting.pop_front();
        }
        while (!taking.empty()) {
          Operation& front = taking.front();
          while (front.wanted > 0 && !model.empty()) {
            front.values.push_back(model.front());
            model.pop_front();
            --front.wanted;
            changed = true;
          }
          if (front.wanted > 0) break;
          EXPECT_EQ(front.real->values, front.values) << "seed " << seed;
          taking.pop_front();
        }
      }
    };
    int64_t next = 0;
    for (int i = 0; i < 60; ++i) {
      const int64_t count = 1 + random() % 4;
      if (random() % 2 == 0) {
        std::vector<int64_t> values(static_cast<size_t>(count));
        for (int64_t& value : values) value = next++;
        putting.push_back({true, values, 0, EnqueueMany(*queue, values)});
      } else {
        taking.push_back({false, {}, count, DequeueMany(*queue, count)});
      }
      advance();
      ASSERT_EQ(queue->size(), static_cast<int64_t>(model.size())) << "seed " << seed;
      for (const auto& waiting : putting) ASSERT_TRUE(Waits(waiting.real)) << "seed " << seed;
      for (const auto& waiting : taking) ASSERT_TRUE(Waits(waiting.real)) << "seed " << seed;
    }
  }
}

// Whatever threads put in comes out, once, each thread's values in order; nobody waits for ever.
TEST(Queue, ManyThreads_LoseAndDoubleNothing) {
  const auto queue = MakeQueue({.capacity = 3});
  constexpr int kThreads = 4, kEach = 300;
  std::atomic<int> told{0};
  std::vector<std::vector<int64_t>> taken(kThreads);
  {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i)
          queue->Enqueue({Tensor::Scalar<int64_t>(t * kEach + i)}, CancellationToken::Create(), [&](const Status& s) {
            EXPECT_OK(s);
            ++told;
          });
      });
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i)
          queue->Dequeue(CancellationToken::Create(), [&, t](StatusOr<Queue::Tuple> tuple) {
            EXPECT_OK(tuple.status());
            static Mutex mutex;
            MutexLock lock(mutex);
            if (tuple.ok()) taken[static_cast<size_t>(t)].push_back((*tuple)[0].flat<int64_t>()[0]);
            ++told;
          });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(told.load(), 2 * kThreads * kEach);
  std::vector<int64_t> all;
  for (const auto& each : taken) all.insert(all.end(), each.begin(), each.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), static_cast<size_t>(kThreads * kEach));
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int64_t>(i));
}

}  // namespace
}  // namespace rivulet::testing
