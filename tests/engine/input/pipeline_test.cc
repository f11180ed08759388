// Input pipelines without a session: the elements, their order, and errors. Orders determined by seeds are TensorFlow's
// (2.21: tf.data and raw_ops with the arguments stated here).
#include <numeric>

#include "engine/base/draws.h"
#include "tests/engine/input/datasets.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Build>
std::vector<int64_t> Values(const Build& build) {
  const auto elements = ElementsOfDataset(build);
  EXPECT_OK(elements.status());
  return elements.ok() ? Flat(*elements) : std::vector<int64_t>();
}

TEST(Pipeline, Range_GivesStartToBeforeStop) {
  const auto range = [](int64_t start, int64_t stop, int64_t step) {
    return Values([=](const Datasets& d, Graph&) {
      return d.scope.Op("RangeDataset", {d.Int(start), d.Int(stop), d.Int(step)}, Elements());
    });
  };
  EXPECT_THAT(range(2, 9, 3), ElementsAre(2, 5, 8));
  EXPECT_THAT(range(3, 0, -1), ElementsAre(3, 2, 1));
  EXPECT_THAT(range(INT64_MAX - 1, INT64_MAX, 5), ElementsAre(INT64_MAX - 1));
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph&) {
                return d.scope.Op("RangeDataset", {d.Int(0), d.Int(1), d.Int(0)}, Elements());
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("step must be a non-zero integer")));
}

TEST(Pipeline, TakeSkipRepeatShard_AsTheirCountsSay) {
  EXPECT_THAT(Values([](const Datasets& d, Graph&) { return d.Count("TakeDataset", d.Range(5), 2); }),
              ElementsAre(0, 1));
  EXPECT_THAT(Values([](const Datasets& d, Graph&) { return d.Count("TakeDataset", d.Range(3), -1); }),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(Values([](const Datasets& d, Graph&) { return d.Count("SkipDataset", d.Range(5), 3); }),
              ElementsAre(3, 4));
  EXPECT_THAT(Values([](const Datasets& d, Graph&) { return d.Count("SkipDataset", d.Range(5), -1); }), IsEmpty());
  EXPECT_THAT(Values([](const Datasets& d, Graph&) { return d.Count("RepeatDataset", d.Range(2), 3); }),
              ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(Values([](const Datasets& d, Graph&) {
                return d.Count("TakeDataset", d.Count("RepeatDataset", d.Range(2), -1), 5);
              }),
              ElementsAre(0, 1, 0, 1, 0));
  // Nothing without end is nothing.
  EXPECT_THAT(Values([](const Datasets& d, Graph&) { return d.Count("RepeatDataset", d.Range(0), -1); }), IsEmpty());
  EXPECT_THAT(Values([](const Datasets& d, Graph&) {
                return d.scope.Op("ShardDataset", {d.Range(10), d.Int(3), d.Int(1)}, Elements());
              }),
              ElementsAre(1, 4, 7));
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph&) {
                return d.scope.Op("ShardDataset", {d.Range(10), d.Int(3), d.Int(3)}, Elements());
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Index must be between 0 and 2 (got 3)")));
}

TEST(Pipeline, SeededShuffle_GivesTensorFlowsOrder) {
  const auto shuffled = [](bool reshuffle) {
    return Values([=](const Datasets& d, Graph&) {
      return d.Count("RepeatDataset", d.Shuffle(d.Range(10), 4, 7, 11, reshuffle), 2);
    });
  };
  EXPECT_THAT(shuffled(true), ElementsAre(2, 4, 0, 6, 1, 7, 5, 8, 3, 9, 2, 4, 0, 6, 3, 1, 9, 8, 7, 5));
  EXPECT_THAT(shuffled(false), ElementsAre(1, 3, 5, 4, 7, 0, 6, 9, 8, 2, 1, 3, 5, 4, 7, 0, 6, 9, 8, 2));
}

TEST(Pipeline, ShuffleWithoutSeeds_IsThePermutationOfTheStream) {
  for (const int64_t buffer : {int64_t{10}, int64_t{1000}, int64_t{-1}}) {
    const auto elements = ElementsOfDataset(
        [=](const Datasets& d, Graph&) { return d.Count("RepeatDataset", d.Shuffle(d.Range(10), buffer, 0, 0), 2); });
    ASSERT_OK(elements.status());
    std::vector<int64_t> expected;
    for (const uint32_t epoch : {0u, 1u}) {
      StreamKey stream;
      stream.key.words = {1, 0};
      Draws draws(stream, epoch);
      for (const uint32_t i : Permutation(draws, 10)) expected.push_back(i);
    }
    EXPECT_EQ(Flat(*elements), expected) << "buffer " << buffer;
  }
}

TEST(Pipeline, ShuffleOfASmallBuffer_GivesEachOnceAndNoneTooEarly) {
  for (const int64_t seed : {0, 3}) {
    std::vector<int64_t> values =
        Values([=](const Datasets& d, Graph&) { return d.Shuffle(d.Range(100), 7, seed, seed); });
    ASSERT_EQ(values.size(), 100u);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_LT(values[i], static_cast<int64_t>(i) + 7 + (seed == 0 ? 1 : 0));
    EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
    std::sort(values.begin(), values.end());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<int64_t>(i));
  }
}

TEST(Pipeline, TwoShufflesWithoutSeeds_DrawFromStreamsOfTheirOwn) {
  const auto once = Values([](const Datasets& d, Graph&) { return d.Shuffle(d.Range(50), 50, 0, 0); });
  const auto zipped = ElementsOfDataset([](const Datasets& d, Graph&) {
    return d.scope.Op("ConcatenateDataset", {d.Shuffle(d.Range(50), 50, 0, 0), d.Shuffle(d.Range(50), 50, 0, 0)},
                      Elements());
  });
  ASSERT_OK(zipped.status());
  const std::vector<int64_t> all = Flat(*zipped);
  EXPECT_EQ(std::vector<int64_t>(all.begin(), all.begin() + 50), once);
  EXPECT_NE(std::vector<int64_t>(all.begin() + 50, all.end()), once);
}

TEST(Pipeline, Batch_KeepsOrDropsTheRemainder) {
  const auto batches = [](bool drop) {
    return *ElementsOfDataset([=](const Datasets& d, Graph&) {
      return d.Batch(d.Range(5), 2, drop, Elements({DType::kInt64}, {Shape{kUnknownDim}}));
    });
  };
  EXPECT_THAT(batches(false), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(batches(true), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph&) {
                return d.Batch(d.Range(5), 0, false, Elements({DType::kInt64}, {Shape{kUnknownDim}}));
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Batch size must be greater than zero")));
}

// [0], [0 1], [0 1 2], …: the batches of ranges.
Output Ragged(const Datasets& d, Graph& graph) {
  AddFunction(graph, "ramp", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
    const Datasets inner{s};
    const Output one = inner.Int(1);
    const Output range = s.Op("RangeDataset", {inner.Int(0), s.Op("AddV2", {x[0], one}), one}, Elements());
    return std::vector{inner.Batch(range, 100, false, Elements({DType::kInt64}, {Shape{kUnknownDim}}))};
  });
  return d.WithFunction("FlatMapDataset", "f", {d.Range(3)}, "ramp", Elements({DType::kInt64}, {Shape{kUnknownDim}}));
}

TEST(Pipeline, PaddedBatch_FillsUpToTheLargest) {
  const auto padded = ElementsOfDataset([](const Datasets& d, Graph& graph) {
    return d.scope.Op(
        "PaddedBatchDatasetV2",
        {Ragged(d, graph), d.Int(2), d.scope.Const(Tensor::Of<int64_t>({1}, {-1})), d.Int(9), d.Bool(false)},
        {{"Toutput_types", std::vector{DType::kInt64}},
         {"output_shapes", std::vector{Shape{kUnknownDim, kUnknownDim}}},
         {"N", int64_t{1}}});
  });
  ASSERT_OK(padded.status());
  EXPECT_THAT(*padded, ElementsAre(ElementsAre(0, 9, 0, 1), ElementsAre(0, 1, 2)));
  EXPECT_THAT(
      ElementsOfDataset([](const Datasets& d, Graph& graph) {
        return d.Batch(Ragged(d, graph), 2, false, Elements({DType::kInt64}, {Shape{kUnknownDim, kUnknownDim}}));
      }),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("Cannot batch tensors with different shapes in component 0. First element had shape "
                         "[1] and element 1 had shape [2].")));
}

TEST(Pipeline, Interleave_GivesTensorFlowsOrder) {
  const auto interleaved = [](const char* size_op, int64_t size, int64_t first, int64_t stop, int64_t cycle,
                              int64_t block) {
    return Values([=](const Datasets& d, Graph& graph) {
      AddFunction(graph, "tens", {{DType::kInt64, Shape{}}}, [=](const Scope& s, std::vector<Output> x) {
        const Datasets inner{s};
        const Output begin = s.Op("Mul", {x[0], inner.Int(10)});
        const Output count = s.Op(size_op, {x[0], inner.Int(size)});
        return std::vector{s.Op("RangeDataset", {begin, s.Op("AddV2", {begin, count}), inner.Int(1)}, Elements())};
      });
      const Output input = d.scope.Op("RangeDataset", {d.Int(first), d.Int(stop), d.Int(1)}, Elements());
      return d.WithFunction("InterleaveDataset", "f", {input, d.Int(cycle), d.Int(block)}, "tens");
    });
  };
  EXPECT_THAT(interleaved("AddV2", 2, 1, 5, 2, 3),
              ElementsAre(10, 11, 12, 20, 21, 22, 23, 30, 31, 32, 40, 41, 42, 33, 34, 43, 44, 45));
  EXPECT_THAT(interleaved("FloorMod", 3, 0, 7, 3, 1), ElementsAre(10, 20, 21, 40, 50, 51));
}

TEST(Pipeline, MapAndFilter_CallTheirFunctions) {
  const auto squares = Values([](const Datasets& d, Graph& graph) {
    AddFunction(graph, "square", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
      return std::vector{s.Op("Mul", {x[0], x[0]})};
    });
    AddFunction(graph, "odd", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
      const Datasets inner{s};
      return std::vector{s.Op("Equal", {s.Op("FloorMod", {x[0], inner.Int(2)}), inner.Int(1)})};
    });
    const Output odd = d.WithFunction("FilterDataset", "predicate", {d.Range(6)}, "odd");
    return d.WithFunction("MapDataset", "f", {odd}, "square");
  });
  EXPECT_THAT(squares, ElementsAre(1, 9, 25));
}

TEST(Pipeline, MapOfAnotherType_IsRefusedWhenItIsBuilt) {
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph& graph) {
                AddFunction(graph, "half", {{DType::kFloat32, Shape{}}},
                            [](const Scope&, std::vector<Output> x) { return std::vector{x[0]}; });
                return d.WithFunction("MapDataset", "f", {d.Range(6)}, "half");
              }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the function 'half' takes (float32<unknown>), and is given (int64[])")));
  EXPECT_THAT(ElementsOfDataset(
                  [](const Datasets& d, Graph&) { return d.WithFunction("MapDataset", "f", {d.Range(6)}, "nowhere"); }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the function 'nowhere', which the graph does not")));
}

// Random numbers of a function differ by element, iteration and stream, and by nothing else.
TEST(Pipeline, RandomMap_DrawsForEachElementAndIteration) {
  const auto draws = [](uint32_t seed, int64_t prefetch) {
    const auto elements = ElementsOfDataset(
        [=](const Datasets& d, Graph& graph) {
          AddFunction(graph, "random", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output>) {
            const Output uniform =
                s.Op("RandomUniform", {s.Const(Tensor(DType::kInt32, {0}))}, {{"dtype", DType::kFloat32}});
            return std::vector{s.Op("Cast", {s.Op("Mul", {uniform, s.Const(1e6f)})}, {{"DstT", DType::kInt64}})};
          });
          const Output mapped = d.WithFunction("MapDataset", "f", {d.Range(20)}, "random");
          return d.Count("RepeatDataset", d.Count("PrefetchDataset", mapped, prefetch), 2);
        },
        {}, seed);
    EXPECT_OK(elements.status());
    return Flat(*elements);
  };
  const std::vector<int64_t> values = draws(1, 0);
  std::vector<int64_t> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
  EXPECT_EQ(draws(1, 5), values);
  EXPECT_NE(draws(2, 0), values);
}

TEST(Pipeline, ParallelMap_KeepsTheOrder) {
  EXPECT_THAT(Values([](const Datasets& d, Graph& graph) {
                AddFunction(graph, "square", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
                  return std::vector{s.Op("Mul", {x[0], x[0]})};
                });
                return d.WithFunction("ParallelMapDatasetV2", "f", {d.Range(5), d.Int(4)}, "square");
              }),
              ElementsAre(0, 1, 4, 9, 16));
}

TEST(Pipeline, TensorsAreOneElement_AndSlicesOneForEachRow) {
  const auto elements = [](const char* op, Shape shape) {
    return *ElementsOfDataset([=](const Datasets& d, Graph&) {
      return d.scope.Op(op, {d.scope.Const(Tensor::Of<int64_t>({3, 2}, {1, 2, 3, 4, 5, 6}))},
                        {{"Toutput_types", std::vector{DType::kInt64}}, {"output_shapes", std::vector{shape}}});
    });
  };
  EXPECT_THAT(elements("TensorDataset", Shape{3, 2}), ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6)));
  EXPECT_THAT(elements("TensorSliceDataset", Shape{2}),
              ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4), ElementsAre(5, 6)));
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph&) {
                return d.scope.Op(
                    "TensorSliceDataset", {d.Int(1)},
                    {{"Toutput_types", std::vector{DType::kInt64}}, {"output_shapes", std::vector{Shape{}}}});
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a scalar has no rows")));
}

TEST(Pipeline, ZipAndConcatenate_SideBySideAndOneAfterTheOther) {
  const auto zipped = ElementsOfDataset([](const Datasets& d, Graph&) {
    const AttrMap both = Elements({DType::kInt64, DType::kInt64}, {Shape{}, Shape{}});
    return d.scope.Op("ZipDataset", {d.Range(3), d.Range(2)}, With(both, {{"N", int64_t{2}}}));
  });
  ASSERT_OK(zipped.status());
  EXPECT_EQ(zipped->size(), 2u);
  EXPECT_THAT(Values([](const Datasets& d, Graph&) {
                return d.scope.Op("ConcatenateDataset", {d.Range(2), d.Range(3)}, Elements());
              }),
              ElementsAre(0, 1, 0, 1, 2));
}

TEST(Pipeline, Prefetch_ChangesNothing) {
  const auto build = [](int64_t buffer) {
    return [=](const Datasets& d, Graph&) {
      return d.Count("PrefetchDataset", d.Shuffle(d.Range(1000), 100, 0, 0), buffer);
    };
  };
  const std::vector<int64_t> expected = Values(build(0));
  for (const int64_t buffer : {-1, 1, 7, 2000}) EXPECT_EQ(Values(build(buffer)), expected);
}

TEST(Pipeline, PrefetchWhoseInputFails_GivesWhatCameBeforeAndThenTheError) {
  auto graph = std::make_shared<Graph>();
  const Scope scope(*graph);
  const Datasets d{scope};
  AddFunction(*graph, "checked", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
    const Datasets inner{s};
    const Output table = s.Const(Tensor::Of<int64_t>({3}, {5, 6, 7}));
    return std::vector{s.Op("GatherV2", {table, x[0], inner.Int(0)})};
  });
  const Output mapped = d.WithFunction("MapDataset", "f", {d.Range(6)}, "checked");
  const Output prefetched = d.Count("PrefetchDataset", mapped, 10);
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto pipeline,
                       BuildPipeline(std::shared_ptr<const Graph>(graph), prefetched, Environment()));
  ASSERT_OK_AND_ASSIGN(const auto iterator, pipeline->MakeIterator({}));
  Element element;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const bool more, iterator->Next({}, element));
    EXPECT_TRUE(more);
  }
  EXPECT_THAT(iterator->Next({}, element), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("MapDataset")));
  EXPECT_THAT(iterator->Next({}, element), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("MapDataset")));
}

TEST(Pipeline, DroppedInTheMiddleOfAnEndlessPrefetch_Ends) {
  auto graph = std::make_shared<Graph>();
  const Scope scope(*graph);
  const Datasets d{scope};
  const Output endless = d.Count("PrefetchDataset", d.Count("RepeatDataset", d.Range(3), -1), 4);
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto pipeline, BuildPipeline(std::shared_ptr<const Graph>(graph), endless, Environment()));
  ASSERT_OK_AND_ASSIGN(auto iterator, pipeline->MakeIterator({}));
  Element element;
  ASSERT_OK_AND_ASSIGN(const bool more, iterator->Next({}, element));
  EXPECT_TRUE(more);
  iterator.reset();
  const CancellationToken cancel = CancellationToken::Create();
  ASSERT_OK_AND_ASSIGN(iterator, pipeline->MakeIterator({}));
  cancel.Cancel();
  EXPECT_THAT(iterator->Next(cancel, element), StatusIs(absl::StatusCode::kCancelled, HasSubstr("cancelled")));
}

TEST(Pipeline, BudgetOfElements_EndsWhatNeverWould) {
  const IteratorContext context{std::make_shared<InputBudget>(InputBudget::Limits{.max_elements = 1000})};
  EXPECT_THAT(ElementsOfDataset(
                  [](const Datasets& d, Graph& graph) {
                    AddFunction(graph, "never", {{DType::kInt64, Shape{}}}, [](const Scope& s, std::vector<Output> x) {
                      return std::vector{s.Op("Less", {x[0], Datasets{s}.Int(0)})};
                    });
                    return d.WithFunction("FilterDataset", "predicate", {d.Count("RepeatDataset", d.Range(3), -1)},
                                          "never");
                  },
                  context),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("handed on 1000 elements, all that it may")));
}

TEST(Pipeline, BudgetOfBytes_EndsABufferOfABillion) {
  const auto budget = std::make_shared<InputBudget>(InputBudget::Limits{.max_held_bytes = 1 << 20});
  for (const int64_t seed : {0, 1})
    EXPECT_THAT(ElementsOfDataset(
                    [=](const Datasets& d, Graph&) {
                      return d.Shuffle(d.Count("RepeatDataset", d.Range(10), -1), 1'000'000'000, seed, seed);
                    },
                    {budget}),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("ShuffleDataset 'shuffle'")));
  ASSERT_OK(budget->Hold(1 << 20, "all of it"));  // what the ended ones held was given back
}

TEST(Pipeline, ZipOfZipsWithoutEnd_IsRefusedBeforeItGrows) {
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph&) {
                Output all = d.Range(3);
                for (int i = 0; i < 40; ++i) all = d.scope.Op("ConcatenateDataset", {all, all}, Elements());
                return all;
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stages up to here, more than 500")));
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph&) {
                Output all = d.Range(3);
                for (int i = 0; i < 2000; ++i) all = d.Count("SkipDataset", all, 0);
                return all;
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 500")));
}

TEST(Pipeline, UnboundName_IsRefused) {
  EXPECT_THAT(ElementsOfDataset([](const Datasets& d, Graph&) {
                return d.scope.Op("BoundDataset", {}, With(Elements(), {{"name", std::string("train")}}));
              }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no data set is bound to 'train' here")));
}

}  // namespace
}  // namespace rivulet::testing
