"""The ticker alone: the noise of the machine."""

import asyncio

from measure import Measure


async def main():
    measure = Measure()
    async with measure:
        await asyncio.sleep(2)
    measure.tell(0)


if __name__ == "__main__":
    asyncio.run(main())
