// Names of traits: facts about a piece that its kind states in its table (SettingTable::traits).
#pragma once

namespace rivulet {

// A partitioner that finds the number of clients in the data, so that data.partition.clients is an upper limit.
inline constexpr char kCountsClients[] = "counts clients";

// A codec that sends every value, without bias or with small rounding errors, so that versions may be sent with it
// (server.download). Other codecs omit most of a model.
inline constexpr char kSendsWholeModels[] = "sends whole models";

// A codec of that kind that may change the sign of small values. A negative variance has no square root, so models with
// running statistics are not sent with it.
inline constexpr char kMayChangeSigns[] = "may change signs";

// A codec with a biased error, so that a client may keep the error (update.error_feedback).
inline constexpr char kLosesInTheMean[] = "loses in the mean";

// A codec that sends values at the same places in all updates of a version, so that their sums may be masked.
inline constexpr char kSharesPlaces[] = "shares places";

// A schedule of clients with a constant rate after warm-up.
inline constexpr char kKeepsRate[] = "keeps the rate";

}  // namespace rivulet
