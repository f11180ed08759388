// Datasets, iterators and queues as nodes of a session's graph.
#include "dataflow/session/session.h"

#include <thread>

#include "dataflow/input/bound_data.h"
#include "engine/data/example.h"
#include "tests/engine/data/data_test.h"
#include "tests/engine/input/datasets.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InputSession : public DataTest {
 protected:
  void Make(const SessionConfig& config = {}) {
    ASSERT_OK(scope.status());
    ASSERT_OK_AND_ASSIGN(session, Session::Create(std::move(graph), config));
  }
  // An iterator over `dataset`: targets "start", fetches "next" and "next:1", ….
  void Iterate(Output dataset, std::vector<DType> types, std::vector<Shape> shapes) {
    const Output iterator = scope.Op("IteratorV2", {}, Elements(types, shapes), "iterator");
    scope.AddNode("MakeIterator", {dataset, iterator}, {}, "start");
    scope.AddNode("IteratorGetNext", {iterator}, Elements(types, shapes), "next");
  }
  // All values of `fetch` until the end.
  std::vector<std::vector<int64_t>> All(const std::string& fetch = "next") {
    std::vector<std::vector<int64_t>> all;
    for (;;) {
      const auto values = session->Run({}, {fetch});
      if (!values.ok()) {
        EXPECT_THAT(values, StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("End of sequence")));
        return all;
      }
      const auto flat = (*values)[0].flat<int64_t>();
      all.emplace_back(flat.begin(), flat.end());
    }
  }
  // Two files of examples: label 0 … 4 and 10 … 12, with two floats each.
  void Bind(ResourceManager& resources) {
    std::vector<std::string> paths;
    for (const int64_t first : {0, 10}) {
      std::vector<std::string> records;
      for (int64_t label = first; label < (first == 0 ? 5 : 13); ++label) {
        const std::vector<float> x = {static_cast<float>(label), 0.5f};
        records.push_back(ExampleBuilder().Int64("label", label).Floats("x", x).Serialize());
      }
      paths.push_back(Write(fmt::format("{}.tfrecord", first), Frames(records)));
    }
    ASSERT_OK(BindData(resources, "train", paths));
  }
  Output Bound(const char* op = "BoundDataset", std::vector<Output> inputs = {}, DType type = DType::kString) {
    return scope.Op(op, std::move(inputs), With(Elements({type}, {Shape{}}), {{"name", std::string("train")}}));
  }
  Output Parse(Output batches, DType label_type = DType::kInt64, Shape x_shape = Shape{2}) {
    const Output no_label = scope.Const(Tensor(label_type, Shape{0})), no_x = scope.Const(Tensor(DType::kFloat32, {0}));
    const std::vector<int64_t> x_dims(x_shape.dims().begin(), x_shape.dims().end());
    std::vector<int64_t> batched = {kUnknownDim};
    batched.insert(batched.end(), x_dims.begin(), x_dims.end());
    return scope.Op("ParseExampleDatasetV2", {batches, d.Int(1), no_x, no_label},
                    With(Elements({label_type, DType::kFloat32}, {Shape{kUnknownDim}, Shape(batched)}),
                         {{"dense_keys", std::vector<std::string>{"x", "label"}},
                          {"Tdense", std::vector{DType::kFloat32, label_type}},
                          {"dense_shapes", std::vector{x_shape, Shape{}}},
                          {"sparse_keys", std::vector<std::string>{}},
                          {"sparse_types", std::vector<DType>{}},
                          {"ragged_keys", std::vector<std::string>{}},
                          {"ragged_value_types", std::vector<DType>{}},
                          {"ragged_split_types", std::vector<DType>{}}}));
  }
  static AttrMap Strings() { return Elements({DType::kString}, {Shape{kUnknownDim}}); }

  Graph graph;
  Scope scope{graph};
  Datasets d{scope};
  std::unique_ptr<Session> session;
};

TEST_F(InputSession, Iterator_GivesElementsUntilOutOfRangeAndStartsAgain) {
  const Output stop = scope.Placeholder("stop", DType::kInt64, Shape{});
  const Output range = scope.Op("RangeDataset", {d.Int(0), stop, d.Int(1)}, Elements());
  Iterate(d.Batch(range, 2, false, Elements({DType::kInt64}, {Shape{kUnknownDim}})), {DType::kInt64},
          {Shape{kUnknownDim}});
  scope.Op("Mul", {scope.graph().Find("next")->output(), d.Int(10)}, {}, "scaled");
  Make();
  EXPECT_THAT(session->Run({}, {"next"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has not been initialized")));
  ASSERT_OK(session->Run({{"stop", Tensor::Scalar<int64_t>(3)}}, {}, {"start"}).status());
  EXPECT_THAT(All(), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(session->Run({}, {"next"}), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("End of sequence")));
  ASSERT_OK(session->Run({{"stop", Tensor::Scalar<int64_t>(2)}}, {}, {"start"}).status());
  EXPECT_THAT(All("scaled"), ElementsAre(ElementsAre(0, 10)));
}

TEST_F(InputSession, BoundFiles_InterleaveParseAndShuffleIntoBatches) {
  AddFunction(graph, "records", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
    return std::vector{s.Op("BoundFileDataset", {x[0]},
                            With(Elements({DType::kString}, {Shape{}}), {{"name", std::string("train")}}))};
  });
  const Output files = Bound("BoundFilesDataset", {}, DType::kInt64);
  const Output records = d.WithFunction("InterleaveDataset", "f", {files, d.Int(2), d.Int(2)}, "records",
                                        Elements({DType::kString}, {Shape{}}));
  const Output batches = d.Batch(records, 3, false, Strings());
  Iterate(Parse(batches), {DType::kInt64, DType::kFloat32}, {Shape{kUnknownDim}, Shape{kUnknownDim, 2}});
  Make();
  Bind(*session->resources());
  ASSERT_OK(session->Run({}, {}, {"start"}).status());
  ASSERT_OK_AND_ASSIGN(const auto first, session->Run({}, {"next", "next:1"}));
  EXPECT_THAT(first[0].flat<int64_t>(), ElementsAre(0, 1, 10));
  EXPECT_THAT(first[1].flat<float>(), ElementsAre(0, 0.5f, 1, 0.5f, 10, 0.5f));
  EXPECT_THAT(All(), ElementsAre(ElementsAre(11, 2, 3), ElementsAre(12, 4)));
}

TEST_F(InputSession, OneShotIterator_NeedsNoStart) {
  AddFunction(graph, "three", {},
              [](const Scope& s, std::vector<Output>) { return std::vector{Datasets{s}.Range(3)}; });
  const Output iterator =
      scope.Op("OneShotIterator", {}, With(Elements(), {{"dataset_factory", FunctionRef{"three"}}}), "iterator");
  scope.AddNode("IteratorGetNext", {iterator}, Elements(), "next");
  Make();
  EXPECT_THAT(All(), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST_F(InputSession, DamagedRecord_IsReportedByFileRecordAndByte) {
  Iterate(Parse(d.Batch(Bound(), 2, false, Strings())), {DType::kInt64, DType::kFloat32},
          {Shape{kUnknownDim}, Shape{kUnknownDim, 2}});
  Make();
  const std::string good = ExampleBuilder().Int64("label", 1).Floats("x", std::vector<float>{1, 2}).Serialize();
  std::string bytes = Frames({good, good, good});
  bytes[bytes.size() / 3 + 20] ^= 1;  // in the second record
  ASSERT_OK(BindData(*session->resources(), "train", {Write("damaged.tfrecord", bytes)}));
  ASSERT_OK(session->Run({}, {}, {"start"}).status());
  EXPECT_THAT(session->Run({}, {"next"}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged.tfrecord: record 1 at byte")));
}

TEST_F(InputSession, ExampleOfAnotherKind_IsReportedByFileRecordAndByte) {
  Iterate(Parse(d.Batch(Bound(), 2, false, Strings()), DType::kInt64, Shape{3}), {DType::kInt64, DType::kFloat32},
          {Shape{kUnknownDim}, Shape{kUnknownDim, 3}});
  Make();
  Bind(*session->resources());
  ASSERT_OK(session->Run({}, {}, {"start"}).status());
  EXPECT_THAT(
      session->Run({}, {"next"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("0.tfrecord: record 0 at byte 0"),
                     HasSubstr("Key: x. Number of float values != expected. Values size: 2 but output shape: [3]"))));
}

TEST_F(InputSession, DatasetOfOtherElements_IsRefused) {
  Iterate(d.Range(3), {DType::kFloat32}, {Shape{}});
  Make();
  EXPECT_THAT(session->Run({}, {}, {"start"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gives (int64[]), but (float32[]) is wanted")));
}

TEST_F(InputSession, EndlessFilter_EndsWhenTheRunIsCancelled) {
  AddFunction(graph, "never", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
    return std::vector{s.Op("Less", {x[0], Datasets{s}.Int(0)})};
  });
  const Output endless = d.Count("RepeatDataset", d.Range(3), -1);
  Iterate(d.WithFunction("FilterDataset", "predicate", {endless}, "never"), {DType::kInt64}, {Shape{}});
  Make();
  ASSERT_OK(session->Run({}, {}, {"start"}).status());
  const CancellationToken cancel = CancellationToken::Create();
  std::thread canceller([&] { cancel.Cancel(); });
  EXPECT_THAT(session->Run({}, {"next"}, {}, cancel), StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
  canceller.join();
}

AttrMap Components(std::string_view attr = "component_types") {
  return {{std::string(attr), std::vector{DType::kInt64}}};
}

TEST_F(InputSession, Queue_CarriesValuesFromOneSessionToAnother) {
  const Output x = scope.Placeholder("x", DType::kInt64, Shape{kUnknownDim});
  const Output queue =
      scope.Op("FIFOQueueV2", {},
               With(Components(),
                    {{"shapes", std::vector{Shape{}}}, {"capacity", int64_t{3}}, {"shared_name", std::string("q")}}),
               "queue");
  scope.AddNode("QueueEnqueueManyV2", {queue, scope.Op("Mul", {x, d.Int(2)})}, Components("Tcomponents"), "enqueue");
  const Output one = scope.Op("QueueDequeueV2", {queue}, Components(), "dequeue");
  scope.Op("AddV2", {one, d.Int(1)}, {}, "plus_one");
  scope.Op("QueueDequeueUpToV2", {queue, scope.Const(Tensor::Scalar<int32_t>(5))}, Components(), "rest");
  scope.AddNode("QueueCloseV2", {queue}, {{"cancel_pending_enqueues", false}}, "close");
  scope.Op("QueueSizeV2", {queue}, {}, "size");
  scope.Op("QueueIsClosedV2", {queue}, {}, "is_closed");
  ASSERT_OK(scope.status());
  SessionConfig config;
  config.shared_state = std::make_shared<ResourceManager>();
  ASSERT_OK_AND_ASSIGN(const auto producer, Session::Create(graph.Clone(), config));
  Make(config);
  std::thread producing([&] {
    EXPECT_OK(producer->Run({{"x", Tensor::Of<int64_t>({5}, {1, 2, 3, 4, 5})}}, {}, {"enqueue"}).status());
    EXPECT_OK(producer->Run({}, {}, {"close"}).status());
  });
  for (const int64_t expected : {3, 5}) {
    ASSERT_OK_AND_ASSIGN(const auto value, session->Run({}, {"plus_one"}));
    EXPECT_EQ(value[0].flat<int64_t>()[0], expected);
  }
  producing.join();
  ASSERT_OK_AND_ASSIGN(const auto state, session->Run({}, {"size", "is_closed"}));
  EXPECT_EQ(state[0].flat<int32_t>()[0], 3);
  EXPECT_TRUE(state[1].flat<bool>()[0]);
  ASSERT_OK_AND_ASSIGN(const auto rest, session->Run({}, {"rest"}));
  EXPECT_THAT(rest[0].flat<int64_t>(), ElementsAre(6, 8, 10));
  EXPECT_THAT(session->Run({}, {"dequeue"}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("FIFOQueue 'q' is closed")));
}

TEST_F(InputSession, ShufflingAndPaddingQueues_GiveBatches) {
  const Output x = scope.Placeholder("x", DType::kInt64, Shape{kUnknownDim});
  const Output shuffling = scope.Op("RandomShuffleQueueV2", {},
                                    With(Components(), {{"shapes", std::vector{Shape{}}},
                                                        {"capacity", int64_t{20}},
                                                        {"min_after_dequeue", int64_t{3}},
                                                        {"seed", int64_t{5}},
                                                        {"seed2", int64_t{9}}}));
  scope.AddNode("QueueEnqueueManyV2", {shuffling, x}, Components("Tcomponents"), "shuffle");
  const Output seven = scope.Const(Tensor::Scalar<int32_t>(7)), two = scope.Const(Tensor::Scalar<int32_t>(2));
  scope.Op("QueueDequeueManyV2", {shuffling, seven}, Components(), "shuffled");
  const Output padding =
      scope.Op("PaddingFIFOQueueV2", {}, With(Components(), {{"shapes", std::vector{Shape{kUnknownDim}}}}));
  scope.AddNode("QueueEnqueueV2", {padding, x}, Components("Tcomponents"), "pad");
  scope.Op("QueueDequeueManyV2", {padding, two}, Components(), "padded");
  Make();
  const std::vector<int64_t> twelve = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  ASSERT_OK(session->Run({{"x", Tensor::Of<int64_t>({12}, std::span(twelve))}}, {}, {"shuffle"}).status());
  ASSERT_OK_AND_ASSIGN(const auto shuffled, session->Run({}, {"shuffled"}));
  EXPECT_THAT(shuffled[0].flat<int64_t>(), ElementsAre(2, 9, 5, 10, 11, 6, 3));  // as TensorFlow
  ASSERT_OK(session->Run({{"x", Tensor::Of<int64_t>({1}, {4})}}, {}, {"pad"}).status());
  ASSERT_OK(session->Run({{"x", Tensor::Of<int64_t>({3}, {5, 6, 7})}}, {}, {"pad"}).status());
  ASSERT_OK_AND_ASSIGN(const auto padded, session->Run({}, {"padded"}));
  EXPECT_EQ(padded[0].shape(), (Shape{2, 3}));
  EXPECT_THAT(padded[0].flat<int64_t>(), ElementsAre(4, 0, 0, 5, 6, 7));
}

TEST_F(InputSession, IteratorOfOneName_IsSharedByNodesAndRuns) {
  AttrMap named = Elements();
  named["shared_name"] = std::string("it");
  const Output starting = scope.Op("Iterator", {}, named), reading = scope.Op("Iterator", {}, named);
  scope.AddNode("MakeIterator", {d.Range(3), starting}, {}, "start");
  scope.AddNode("IteratorGetNext", {reading}, Elements(), "next");
  Make();
  ASSERT_OK(session->Run({}, {}, {"start"}).status());
  EXPECT_THAT(All(), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST_F(InputSession, BlockedDequeue_EndsByTimeoutAndByClose) {
  const Output queue = scope.Op("FIFOQueueV2", {}, With(Components(), {{"shapes", std::vector{Shape{}}}}), "queue");
  scope.Op("QueueDequeueV2", {queue}, Components(), "dequeue");
  Make();
  RunOptions options;
  options.timeout = std::chrono::milliseconds(20);
  EXPECT_THAT(session->RunWith(options, {}, {"dequeue"}), StatusIs(absl::StatusCode::kDeadlineExceeded));
  std::thread closing([&] { session->Close(); });
  EXPECT_THAT(session->Run({}, {"dequeue"}), ::testing::Not(IsOk()));
  closing.join();
}

}  // namespace
}  // namespace rivulet::testing
