// Batches under concurrency: every request is answered once, with the answer of its own version and values, whatever
// its neighbours; requests that cannot be answered are refused at once.
#include "serving/batcher.h"

#include <atomic>
#include <future>

#include "serving/inference.h"
#include "tests/serving/served_model.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::FourPixelsVersion;
using ::rivulet::testing::StatusIs;

std::vector<float> Image(int number, int rows = 1) {
  std::vector<float> values;
  for (int i = 0; i < 4 * rows; ++i) values.push_back(static_cast<float>((number * 37 + i * 71) % 256) / 255.0f);
  return values;
}

struct Answer {
  Status status = absl::UnknownError("none");
  std::vector<float> values;
};

std::future<Answer> Ask(Batcher& batcher, const std::shared_ptr<const LoadedVersion>& version,
                        const std::vector<float>& image, BatchedRequest request = {}) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  request.version = version;
  request.rows = static_cast<int64_t>(image.size()) / 4;
  request.inputs = {reinterpret_cast<const std::byte*>(image.data())};
  request.done = [promise](const Status& status, std::span<const TensorView> outputs, const RequestTimes&) {
    Answer answer{status, {}};
    if (status.ok()) {
      const auto values = outputs[0].flat<const float>();
      answer.values.assign(values.begin(), values.end());
    }
    promise->set_value(std::move(answer));
  };
  batcher.Submit(std::move(request));
  return future;
}

// By hand: logits of FourPixelsBase in wire order, w then b.
std::vector<float> Logits(const LoadedVersion& version, const std::vector<float>& image) {
  const Slice& w = *version.plan->plan().layout()->Find("w");
  const Slice& b = *version.plan->plan().layout()->Find("b");
  const auto weights = version.model->tensor(w).flat<const float>(),
             bias = version.model->tensor(b).flat<const float>();
  std::vector<float> logits;
  for (size_t row = 0; row < image.size() / 4; ++row)
    for (size_t c = 0; c < 3; ++c) {
      double sum = bias[c];
      for (size_t k = 0; k < 4; ++k) sum += static_cast<double>(image[row * 4 + k]) * weights[k * 3 + c];
      logits.push_back(static_cast<float>(sum));
    }
  return logits;
}

void ExpectLogits(const Answer& answer, const std::vector<float>& wanted) {
  EXPECT_OK(answer.status);
  ASSERT_EQ(answer.values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(answer.values[i], wanted[i], 1e-5);
}

TEST(Batcher, OneRequest_HasTheModelsAnswer) {
  const auto version = FourPixelsVersion();
  Batcher batcher({.threads = 1});
  ExpectLogits(Ask(batcher, version, Image(1)).get(), Logits(*version, Image(1)));
  ExpectLogits(Ask(batcher, version, Image(2, 5)).get(), Logits(*version, Image(2, 5)));
}

// Property: among requests of two versions and many sizes from several threads, each gets its own answer.
TEST(Batcher, ManyAtOnce_EachItsOwnAnswer) {
  const auto one = FourPixelsVersion(1), two = FourPixelsVersion(2);
  Batcher batcher({.max_batch = 8, .max_queue = 100'000, .threads = 3});
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      std::vector<std::vector<float>> images;
      std::vector<std::future<Answer>> answers;
      for (int i = 0; i < 200; ++i) images.push_back(Image(caller * 1000 + i, 1 + i % 8));
      for (int i = 0; i < 200; ++i)
        answers.push_back(Ask(batcher, i % 2 == 0 ? one : two, images[static_cast<size_t>(i)]));
      for (size_t i = 0; i < 200; ++i) ExpectLogits(answers[i].get(), Logits(*one, images[i]));
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(batcher.waiting(), 0);
}

TEST(Batcher, FixedBatch_SameBitsBesideAnyNeighbours) {
  const auto version = FourPixelsVersion();
  Batcher alone({.max_batch = 8, .threads = 1, .fixed = 8});
  const Answer single = Ask(alone, version, Image(3)).get();
  Batcher busy({.max_batch = 8, .max_queue = 1000, .threads = 1, .fixed = 8});
  std::vector<std::vector<float>> images;
  for (int i = 0; i < 100; ++i) images.push_back(i % 3 == 0 ? Image(3) : Image(i));
  std::vector<std::future<Answer>> answers;
  for (const auto& image : images) answers.push_back(Ask(busy, version, image));
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer answer = answers[i].get();
    if (i % 3 == 0) {
      EXPECT_EQ(answer.values, single.values) << i;
    }
  }
}

TEST(Batcher, NoRowsOrTooMany_AreRefused) {
  const auto version = FourPixelsVersion();
  Batcher batcher({.max_batch = 4, .threads = 1});
  EXPECT_THAT(Ask(batcher, version, Image(1, 5)).get().status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Ask(batcher, version, {}).get().status, StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Batcher, PassedDeadline_IsRefusedWithoutWaiting) {
  const auto version = FourPixelsVersion();
  Batcher batcher({.threads = 1});
  BatchedRequest request;
  request.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  EXPECT_THAT(Ask(batcher, version, Image(1), request).get().status, StatusIs(absl::StatusCode::kResourceExhausted));
}

// The one thread is held in an answer, so that the queue fills: what is beyond it is refused, and the rest answered.
TEST(Batcher, FullQueue_RefusesTheNextAndAnswersTheRest) {
  const auto version = FourPixelsVersion();
  const std::vector<float> image = Image(1);
  Batcher batcher({.max_batch = 1, .max_queue = 2, .threads = 1});
  std::promise<void> entered, leave;
  BatchedRequest held{.version = version, .rows = 1, .inputs = {reinterpret_cast<const std::byte*>(image.data())}};
  held.done = [&](const Status&, std::span<const TensorView>, const RequestTimes&) {
    entered.set_value();
    leave.get_future().wait();
  };
  batcher.Submit(std::move(held));
  entered.get_future().wait();
  auto second = Ask(batcher, version, image), third = Ask(batcher, version, image);
  EXPECT_THAT(Ask(batcher, version, image).get().status, StatusIs(absl::StatusCode::kResourceExhausted));
  leave.set_value();
  ExpectLogits(second.get(), Logits(*version, image));
  ExpectLogits(third.get(), Logits(*version, image));
}

// Three requests wait while the one thread is held. Where a step's time goes with its size, two of them go first.
TEST(Batcher, PaddingThatCostsTime_IsLeftOut) {
  using std::chrono::hours;
  for (const auto& [of_four, wanted] : {std::pair{hours(10), 3}, {hours(2), 2}}) {
    const auto version = FourPixelsVersion();
    const std::vector<float> image = Image(1);
    Batcher batcher({.max_batch = 4, .threads = 1});
    std::promise<void> entered, leave;
    BatchedRequest held{.version = version, .rows = 1, .inputs = {reinterpret_cast<const std::byte*>(image.data())}};
    held.done = [&](const Status&, std::span<const TensorView>, const RequestTimes&) {
      entered.set_value();
      leave.get_future().wait();
    };
    batcher.Submit(std::move(held));
    entered.get_future().wait();
    for (int i = 0; i < 300; ++i) {
      version->plan->TellStep(1, hours(1));
      version->plan->TellStep(2, hours(2));
      version->plan->TellStep(4, of_four);
    }
    std::vector<std::future<Answer>> answers;
    for (int i = 0; i < 3; ++i) answers.push_back(Ask(batcher, version, image));
    leave.set_value();
    for (auto& answer : answers) ExpectLogits(answer.get(), Logits(*version, image));
    // The last step is counted behind its answers.
    while (batcher.steps() < wanted) std::this_thread::yield();
    EXPECT_EQ(batcher.steps(), wanted);
  }
}

TEST(Batcher, CallerThatHasGone_CostsNoStep) {
  const auto version = FourPixelsVersion();
  Batcher batcher({.threads = 1});
  BatchedRequest request;
  request.gone = [] { return true; };
  EXPECT_THAT(Ask(batcher, version, Image(1), request).get().status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(batcher.steps(), 0);
}

TEST(Batcher, Probabilities_SumToOne) {
  const auto version = FourPixelsVersion(1, {"probabilities", "logits"});
  ASSERT_EQ(version->plan->outputs().size(), 2u);
  Batcher batcher({.threads = 1});
  const Answer answer = Ask(batcher, version, Image(1, 3)).get();
  EXPECT_OK(answer.status);
  ASSERT_EQ(answer.values.size(), 9u);
  for (size_t row = 0; row < 3; ++row)
    EXPECT_NEAR(answer.values[row * 3] + answer.values[row * 3 + 1] + answer.values[row * 3 + 2], 1, 1e-6);
}

TEST(BatchOptions, SizesAndChecks) {
  EXPECT_THAT(BatchOptions{.max_batch = 6}.Sizes(), ::testing::ElementsAre(1, 2, 4, 6));
  EXPECT_THAT((BatchOptions{.max_batch = 8, .fixed = 8}.Sizes()), ::testing::ElementsAre(8));
  for (const BatchOptions& wrong :
       {BatchOptions{.max_batch = 0}, BatchOptions{.max_batch = 1 << 20}, BatchOptions{.max_batch = 8, .sizes = {1, 4}},
        BatchOptions{.max_batch = 8, .sizes = {4, 2, 8}}, BatchOptions{.max_batch = 64, .fixed = 8}})
    EXPECT_THAT(CheckBatchOptions(wrong), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ServedPlan, InputsAreThoseThatTheOutputsNeed) {
  const auto version = FourPixelsVersion();
  ASSERT_EQ(version->plan->inputs().size(), 1u);
  EXPECT_EQ(version->plan->inputs()[0].name, "image");
  EXPECT_EQ(version->plan->inputs()[0].row.shape, (Shape{4}));
  EXPECT_EQ(version->plan->outputs()[0].row.shape, (Shape{3}));
  EXPECT_EQ(version->plan->row_bytes(), 16);
}

TEST(ServedPlan, UnknownOutput_IsRefusedByName) {
  const auto version = FourPixelsVersion();
  const auto plan = std::shared_ptr<const Plan>(version->plan, &version->plan->plan());
  EXPECT_THAT(ServedPlan::Create(plan, {.outputs = {"logit"}, .scores = testing::LogitsOf}).status(),
              StatusIs(absl::StatusCode::kNotFound, ::testing::HasSubstr("logits")));
  EXPECT_THAT(ServedPlan::Create(plan, {}).status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace rivulet
