// Counts calls of the global operator new in the test program, and makes them fail.
#pragma once

long num_allocations();

// The next allocation of this thread.
void fail_next_allocation();
