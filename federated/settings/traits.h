// Names of traits: facts about a piece that its kind states in its table (SettingTable::traits).
#pragma once

namespace rivulet {

// A partitioner that finds the number of clients in the data, so that data.partition.clients is a cap.
inline constexpr char kCountsClients[] = "counts clients";

// A codec that sends every value, right in the mean or to a rounding, so that a version may travel by it
// (server.download). Of other codecs little of a model is left.
inline constexpr char kSendsWholeModels[] = "sends whole models";

// Such a codec that may turn a value that is not negative into one that is. The square root of a variance that did is
// no number, so models with running statistics do not travel by it.
inline constexpr char kMayChangeSigns[] = "may change signs";

// A codec whose mean error is not zero, so that a client may keep what it left out (update.error_feedback).
inline constexpr char kLosesInTheMean[] = "loses in the mean";

// A codec whose updates of one version all have values at the same places, so that sums of them may be masked.
inline constexpr char kSharesPlaces[] = "shares places";

// A schedule of clients that leaves the rate as it is after warm-up.
inline constexpr char kKeepsRate[] = "keeps the rate";

}  // namespace rivulet
