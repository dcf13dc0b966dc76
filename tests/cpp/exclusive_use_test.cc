#include "exclusive_use.h"

#include <gtest/gtest.h>

namespace asr_stream {
namespace {

TEST(ExclusiveUse, RefusesTheSecondUntilTheFirstLeaves) {
  ExclusiveUse use;
  {
    const ExclusiveUse::Scope scope(use, "Thing");
    EXPECT_FALSE(use.try_enter());
    EXPECT_THROW(ExclusiveUse::Scope(use, "Thing"), std::runtime_error);
    EXPECT_FALSE(use.try_enter());  // a refused scope does not release the first one
  }
  EXPECT_TRUE(use.try_enter());
  use.leave();
}

}  // namespace
}  // namespace asr_stream
