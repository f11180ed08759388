#include "coordinator/rounds/lease_book.h"

#include <algorithm>
#include <random>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using State = Lease::State;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Lease LeaseFor(const std::string& task, const std::string& client_id) {
  Lease lease;
  lease.task = task;
  lease.client_id = client_id;
  return lease;
}

TEST(LeaseBookTest, Offered_InTheOrderAdded) {
  LeaseBook book;
  EXPECT_EQ(book.NextOffered(), std::nullopt);
  const LeaseSlot b = book.Add(LeaseFor("t1", "b")), a = book.Add(LeaseFor("t0", "a"));
  EXPECT_EQ(book.NextOffered(), b);
  book.Take(b, "site");
  EXPECT_EQ(book.NextOffered(), a);
  EXPECT_EQ(book.at(b).site, "site");
  EXPECT_EQ(book.at(b).state, State::kTaken);
}

TEST(LeaseBookTest, InHand_IsTakenAndStagingOfOneSite) {
  LeaseBook book;
  std::vector<LeaseSlot> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(book.Add(LeaseFor(fmt::format("t{}", i), fmt::format("c{}", i))));
  book.Take(slots[2], "s");
  book.Take(slots[0], "s");
  book.Take(slots[1], "other");
  EXPECT_THAT(book.InHandOf("s"), ElementsAre(slots[0], slots[2]));
  book.SetState(slots[0], State::kStaging);
  EXPECT_THAT(book.InHandOf("s"), ElementsAre(slots[0], slots[2]));
  book.SetState(slots[0], State::kFolding);
  book.SetState(slots[2], State::kHeld);
  EXPECT_THAT(book.InHandOf("s"), IsEmpty());
  EXPECT_THAT(book.InHandOf("nobody"), IsEmpty());
}

TEST(LeaseBookTest, Removed_IsForgottenAndItsPlaceUsedAgain) {
  LeaseBook book;
  const LeaseSlot first = book.Add(LeaseFor("t0", "a"));
  const LeaseSlot newer = book.Add(LeaseFor("t1", "a"));
  book.Remove(first);
  EXPECT_EQ(book.Find("t0"), std::nullopt);
  EXPECT_EQ(book.OfClient("a"), newer) << "the newer one stays its client's";
  EXPECT_EQ(book.Add(LeaseFor("t0", "b")), first);
  EXPECT_EQ(book.NextOffered(), newer) << "the order is that of adding, not of places";
}

TEST(LeaseBookTest, Expired_AreThoseWhoseTimeHasCome_EarliestFirst) {
  LeaseBook book;
  std::vector<LeaseSlot> slots;
  for (const TimeMs expires : {30, 0, 10, 20}) {
    Lease lease = LeaseFor(fmt::format("t{}", slots.size()), fmt::format("c{}", slots.size()));
    lease.expires = expires;
    slots.push_back(book.Add(lease));
  }
  EXPECT_EQ(book.next_expiry(), 10);
  EXPECT_THAT(book.Expired(9), IsEmpty());
  EXPECT_THAT(book.Expired(20), ElementsAre(slots[2], slots[3]));
  book.Take(slots[2], "s");
  book.Extend(slots[2], 50);
  EXPECT_THAT(book.Expired(30), ElementsAre(slots[3], slots[0]));
  book.SetState(slots[3], State::kFolding);
  EXPECT_THAT(book.Expired(30), ElementsAre(slots[0])) << "what is being folded does not lapse";
  book.Release(slots[0], State::kLapsed);
  EXPECT_THAT(book.Expired(30), IsEmpty());
  EXPECT_EQ(book.at(slots[0]).site, "");
  book.Take(slots[0], "again");
  EXPECT_EQ(book.at(slots[0]).state, State::kTaken);
  EXPECT_EQ(book.next_expiry(), 50);
  book.Remove(slots[2]);
  EXPECT_EQ(book.next_expiry(), 0);
}

TEST(LeaseBookTest, Lease_OfASiteOfManyNames_IsPromisedWhileInHand) {
  Lease lease = LeaseFor("t", "c");
  EXPECT_FALSE(lease.promised()) << "offered to whoever serves it";
  lease.site = "c";
  lease.state = State::kTaken;
  EXPECT_FALSE(lease.promised());
  lease.site = "s";
  EXPECT_TRUE(lease.promised());
  lease.state = State::kHeld;
  EXPECT_FALSE(lease.promised()) << "counted as held";
}

// A list of leases in the order added, walked for every question.
class NaiveBook {
 public:
  struct Entry {
    LeaseSlot slot;
    Lease lease;
  };
  std::vector<Entry> entries;
  Entry* At(LeaseSlot slot) {
    for (Entry& entry : entries) {
      if (entry.slot == slot) return &entry;
    }
    return nullptr;
  }
  template <typename Condition>
  std::vector<LeaseSlot> Where(Condition condition) const {
    std::vector<LeaseSlot> slots;
    for (const Entry& entry : entries) {
      if (condition(entry.lease)) slots.push_back(entry.slot);
    }
    return slots;
  }
};

TEST(LeaseBookTest, AnyOperations_AnswerAsAListDoes) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    LeaseBook book;
    NaiveBook naive;
    int tasks = 0;
    for (int step = 0; step < 500; ++step) {
      const std::string site = fmt::format("s{}", below(3));
      const LeaseSlot any = naive.entries.empty() ? 0 : naive.entries[below(naive.entries.size())].slot;
      switch (naive.entries.empty() ? 0 : below(5)) {
        case 0:
        case 1: {
          Lease lease = LeaseFor(fmt::format("t{}", tasks++), fmt::format("c{}", below(6)));
          if (below(8) == 0) {  // as from a snapshot
            lease.state = static_cast<State>(below(Lease::kStates));
            lease.site = site;
          }
          const LeaseSlot slot = book.Add(lease);
          ASSERT_EQ(naive.At(slot), nullptr) << "a place that is in use";
          naive.entries.push_back({slot, lease});
          break;
        }
        case 2: {
          Lease& lease = naive.At(any)->lease;
          if (lease.state != State::kOffered) break;
          book.Take(any, site);
          lease.state = State::kTaken;
          lease.site = site;
          break;
        }
        case 3: {
          Lease& lease = naive.At(any)->lease;
          lease.state = static_cast<State>(below(Lease::kStates));
          lease.reason = fmt::format("step {}", step);
          book.SetState(any, lease.state, lease.reason);
          break;
        }
        default:
          book.Remove(any);
          std::erase_if(naive.entries, [any](const NaiveBook::Entry& entry) { return entry.slot == any; });
      }
      for (const NaiveBook::Entry& entry : naive.entries) {
        ASSERT_EQ(book.Find(entry.lease.task), entry.slot);
        ASSERT_EQ(book.at(entry.slot), entry.lease);
      }
      const auto offered = naive.Where([](const Lease& lease) { return lease.state == State::kOffered; });
      ASSERT_EQ(book.NextOffered(), offered.empty() ? std::nullopt : std::optional(offered.front()));
      for (int i = 0; i < 3; ++i) {
        const std::string name = fmt::format("s{}", i);
        ASSERT_EQ(book.InHandOf(name),
                  naive.Where([&](const Lease& lease) { return lease.in_hand() && lease.site == name; }));
      }
    }
  }
}

// A client's newest lease is the one that is its own, whatever comes and goes, as long as it has one at a time.
TEST(LeaseBookTest, OfClient_IsItsOneLease) {
  std::mt19937 random(1);
  LeaseBook book;
  std::map<std::string, LeaseSlot> naive;
  for (int step = 0; step < 2000; ++step) {
    const std::string client = fmt::format("c{}", random() % 20);
    if (const auto found = naive.find(client); found != naive.end()) {
      book.Remove(found->second);
      naive.erase(found);
    } else {
      naive[client] = book.Add(LeaseFor(fmt::format("t{}", step), client));
    }
    const auto found = naive.find(client);
    ASSERT_EQ(book.OfClient(client), found == naive.end() ? std::nullopt : std::optional(found->second));
  }
}

}  // namespace
}  // namespace rivulet
