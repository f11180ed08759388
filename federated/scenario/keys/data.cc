// [data]: records, their division among clients, and generated records.
#include <algorithm>
#include <iterator>
#include <utility>

#include "federated/scenario/keys.h"
#include "federated/scenario/piece_keys.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet::scenario {
namespace {

bool HasFeatureOfItsOwn(const Scenario& s) { return s.model.inputs.empty() && s.model.arrays.empty(); }

std::vector<Key> RecordKeys() {
  return {
      Key("data.train", RIVULET_FIELD(data.train), "\"mnist/train.tfrecord\"",
          "TFRecord file of `tf.train.Example` that the clients of a simulation share out, or several that match a "
          "pattern (`train-*.tfrecord`), in the order of their names. A coordinator needs none: its clients have their "
          "data.")
          .Path()
          .Default("none; with `data.synth.kind` a file under `data/` beside the scenario"),
      Key("data.test", RIVULET_FIELD(data.test), "\"mnist/test.tfrecord\"",
          "TFRecord file for central evaluation, or several that match a pattern. Empty: there is no test set.")
          .Path()
          .Default("none; with `data.synth.kind` and without `data.train`, `test.tfrecord` beside the generated file")
          .OfGraphs(),
      Key("data.tests", RIVULET_FIELD(data.tests), "[\"rotated=mnist/rotated.tfrecord\"]",
          "Further test sets, a `NAME=FILE` each. Each is measured when `data.test` is and reported under its name: "
          "`NAME/accuracy`. The file may be a pattern.")
          .Path()
          .OfGraphs(),
      Key("data.validation", RIVULET_FIELD(data.validation), "\"mnist/validation.tfrecord\"",
          "TFRecord file, or a pattern, of the set that chooses versions. It is measured when `data.test` is, as "
          "`validation/accuracy` and so on. The best version (`run.keep_models`, `RUN:best`) is then the best on it, "
          "and the test set judges the choice.")
          .Path()
          .OfGraphs(),
      Key("data.validation_fraction", RIVULET_FIELD(data.validation_fraction), "0.1",
          "Holds so many of the training examples out of every client's data and has them for `data.validation`; "
          "`run.seed` draws which. 0: none.")
          .Between(0, 0.9)
          .OfGraphs(),
      Key("data.name", RIVULET_FIELD(data.name), "\"ward\"",
          "Name of the data set that clients train on, `--data NAME=GLOB`. A client may bind several, and so serve "
          "runs of different kinds."),
      Key("data.input_feature", RIVULET_FIELD(data.input_feature), "\"pixels\"",
          "Feature with the input. Of images one byte a pixel, as many as the model's input has elements; the model "
          "sees pixel / 255. Of text the characters' numbers, one `int64` each.")
          .Default("the model's: `image`, or `tokens` for text")
          .When("model.inputs", HasFeatureOfItsOwn, "neither model.inputs nor model.arrays is given"),
      Key("data.label_feature", RIVULET_FIELD(data.label_feature), "\"digit\"",
          "Feature with the target. A class is one `int64`, from 0 to the model's classes less one; for text one a "
          "position. With `model.target` labels are `int64` 0 and 1, and numbers are floats."),
  };
}

std::vector<Key> PartitionKeys() {
  const std::string counting = NamesInWords(NamesWithTrait("partitioner", kCountsClients));
  std::vector<Key> keys = {
      Key("data.partition.kind", RIVULET_FIELD(data.partition.kind), "\"shards\"",
          fmt::format("How the training data is divided into clients. {} [own data](../guide/own-data.md) says more.",
                      PiecesInWords("partitioner")))
          .OneOf(SettingTableNames("partitioner")),
      Key("data.partition.clients", RIVULET_FIELD(data.partition.clients), "100",
          fmt::format("How many clients there are. Under {} a cap: the first so many keys in byte order, and 0 takes "
                      "every key. `up --clients N` sets it.",
                      counting))
          .Between(0, 1e8)
          .Default(fmt::format("0, which only {} allows", counting)),
  };
  std::ranges::move(OptionKeys({.section = "data.partition",
                                .kind = "partitioner",
                                .selector = "data.partition.kind",
                                .chosen = [](const Scenario& s) { return s.data.partition.kind; },
                                .settings = RIVULET_FIELD(data.partition.settings)}),
                    std::back_inserter(keys));
  keys.push_back(Key("data.partition.tags", RIVULET_FIELD(data.partition.tags), "[\"icu=client-0000*\"]",
                     "Tags of a simulation's clients, a `TAG=PATTERN` each: every client whose name matches has the "
                     "tag; `*` stands for any characters. `selection.tags` says which are selected."));
  return keys;
}

std::vector<Key> ShiftKeys() {
  std::vector<std::string> kinds = SettingTableNames("feature shift");
  kinds.insert(kinds.begin(), "");
  std::vector<Key> keys = {
      Key("data.shift.kind", RIVULET_FIELD(data.shift.kind), "\"rotation\"",
          fmt::format(
              "Clients see the same things differently. {} A shift changes the model's first input, in a simulation "
              "and in the files of `rivulet data partition`; test sets stay. [own "
              "data](../guide/own-data.md#shifted-features) has the laws.",
              PiecesInWords("feature shift")))
          .OneOf(std::move(kinds))
          .OfGraphs()};
  std::ranges::move(OptionKeys({.section = "data.shift",
                                .kind = "feature shift",
                                .selector = "data.shift.kind",
                                .chosen = [](const Scenario& s) { return s.data.shift.kind; },
                                .settings = RIVULET_FIELD(data.shift.settings),
                                .or_none = true}),
                    std::back_inserter(keys));
  keys.push_back(Key("data.shift.groups", RIVULET_FIELD(data.shift.groups), "4",
                     "How many shifts there are, dealt to clients 0, 1, … in turn. 0: one for each client.")
                     .Between(0, 1e8)
                     .When(
                         "data.shift.kind", [](const Scenario& s) { return !s.data.shift.kind.empty(); },
                         "data.shift.kind is given"));
  return keys;
}

std::vector<Key> SynthKeys() {
  std::vector<std::string> kinds = SettingTableNames("generator");
  kinds.insert(kinds.begin(), "");
  std::vector<Key> keys = {
      Key("data.synth.kind", RIVULET_FIELD(data.synth.kind), "\"digits\"",
          fmt::format(
              "Data generated on first use, when neither `data.train` nor `data.test` exists. A `data.train` without "
              "`data.test`, or of `--set`, is own data: it must exist. {}",
              PiecesInWords("generator")))
          .OneOf(std::move(kinds))};
  std::ranges::move(OptionKeys({.section = "data.synth",
                                .kind = "generator",
                                .selector = "data.synth.kind",
                                .chosen = [](const Scenario& s) { return s.data.synth.kind; },
                                .settings = RIVULET_FIELD(data.synth.settings),
                                .or_none = true}),
                    std::back_inserter(keys));
  return keys;
}

}  // namespace

std::vector<Key> DataKeys() {
  std::vector<Key> keys;
  for (const auto section : {RecordKeys, PartitionKeys, ShiftKeys, SynthKeys})
    std::ranges::move(section(), std::back_inserter(keys));
  return keys;
}

}  // namespace rivulet::scenario
