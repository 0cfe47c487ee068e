-- Lightweight threads that hand numbers to each other.
import Control.Concurrent
import Control.Monad

main :: IO ()
main = do
  results <- forM [1 .. 20 :: Int] $ \n -> do
    box <- newEmptyMVar
    _ <- forkIO $ putMVar box $! sum [x * n `mod` 13 | x <- [1 .. 20000]]
    return box
  total <- sum <$> mapM takeMVar results
  print total
