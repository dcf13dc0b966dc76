// Counts calls of the global operator new in the test program, and makes them fail.
#pragma once

long num_allocations();

// Makes the next allocation of this thread fail.
void fail_next_allocation();
