#include "allocator/context_gates.h"

#include <gtest/gtest.h>

namespace cuheap {
namespace {

TEST(ContextGatesTest, AClosedGateLetsNobodyInAndTellsWhoIsStillInside) {
  ContextGates gates;
  EXPECT_TRUE(gates.Enter(1));
  EXPECT_TRUE(gates.Enter(1));
  gates.Close(1);
  EXPECT_FALSE(gates.Enter(1));
  EXPECT_TRUE(gates.Enter(2));
  EXPECT_FALSE(gates.Quiet(1));
  gates.Leave(1);
  EXPECT_FALSE(gates.Quiet(1));
  gates.Leave(1);
  EXPECT_TRUE(gates.Quiet(1));
  EXPECT_TRUE(gates.Closed(1));
  gates.Open(1);
  EXPECT_TRUE(gates.Enter(1));
}

TEST(ContextGatesTest, ClosingsNest) {
  ContextGates gates;
  gates.Close(1);
  gates.Close(1);
  gates.Open(1);
  EXPECT_FALSE(gates.Enter(1));
  gates.Open(1);
  gates.Open(1);  // one too many does nothing
  EXPECT_FALSE(gates.Closed(1));
  EXPECT_TRUE(gates.Enter(1));
}

}  // namespace
}  // namespace cuheap
